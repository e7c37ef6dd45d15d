"""Templates and columns as people type them for kubectl; what is not there is said by name."""

import pytest

from numalign.cli.client.formats.jsonpath import cell, custom_columns, rendered
from numalign.core.errors import ConfigError

PODS = {
    "kind": "PodList",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web", "odd key": "x"}},
            "spec": {"n": [10, 20, 30], "on": True, "none": None},
        },
        {"metadata": {"name": "b"}, "spec": {"n": []}},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        ("{$.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[7].metadata.name}", ""),
        ("{.items[0].spec.n[1:]}", "20 30"),
        ("{.items[0].spec.n[:-1]}", "10 20"),
        ("{.items[0].spec.n}", "[10,20,30]"),
        ("{.items[0].spec.on}{.items[0].spec.none}", "true"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "web"),
        ("{.items[0].metadata.labels['odd key']}", "x"),
        ('{.items[0].metadata["name"]}', "a"),
        ("{.items[1].metadata.labels.app}", ""),
        ("{.items[0].metadata.*}", 'a {"app.kubernetes.io/name":"web","odd key":"x"}'),
        ("{.kind}: {.items[*].metadata.name}.", "PodList: a b."),
        ('{range .items[*]}{.metadata.name}{"\\t"}{@.spec.n[0]}{"\\n"}{end}', "a\t10\nb\t\n"),
        ("{range .items[*]}{range .spec.n[*]}{@}/{end}{$.kind} {end}", "10/20/30/PodList PodList "),
        ("{'}'}{.kind}", "}PodList"),
        ("{range .nothing[*]}x{end}", ""),
        ("{items[0].metadata.name}", "a"),
    ],
)
def test_templates_give_what_kubectl_gives(template, text):
    assert rendered(template, PODS) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ('{.items[?(@.metadata.name=="a")].spec}', "needs filters, which are not supported; use"),
        ("{..name}", "needs recursive descent"),
        ("{.items[0,1]}", "needs unions"),
        ("{.items[0]", "expected a closing }"),
        ("{.items[x]}", "found '[x]', expected .KEY, [NUMBER]"),
        ("{.items[}", "found '[', expected .KEY"),
        ("{.a]}", "found ']', expected .KEY"),
        ("{end}", "found {end} without a {range ...}"),
        ("{range .items[*]}x", "found {range ...} without an {end}"),
        (".items", "expected one such as {.items[0].kind}"),
    ],
)
def test_what_is_not_supported_or_not_closed_is_said(template, words):
    with pytest.raises(ConfigError) as caught:
        rendered(template, PODS)
    assert words in str(caught.value)


def test_columns_show_each_object_and_none_for_what_is_missing():
    columns = custom_columns("NAME:.metadata.name,N:{.spec.n[*]},L:metadata.labels['odd key']")
    assert [head for head, _ in columns] == ["NAME", "N", "L"]
    rows = [[cell(path, item) for _, path in columns] for item in PODS["items"]]
    assert rows == [["a", "10,20,30", "x"], ["b", "<none>", "<none>"]]


@pytest.mark.parametrize("spec", ["NAME", "NAME:", ":.a", "A:.a,,B:.b", "A:.a[?(@.b)]"])
def test_bad_columns_are_refused(spec):
    with pytest.raises(ConfigError):
        custom_columns(spec)
