"""Words that name pods and workloads, as kubectl takes them."""

import pytest

from numalign.cli.client.choose.targets import Target, missing, owner_text, targets_of
from numalign.core.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["web"], [("Pod", "web")]),
        (["web", "db"], [("Pod", "web"), ("Pod", "db")]),
        (["pod", "web"], [("Pod", "web")]),
        (["po", "web", "pod"], [("Pod", "web"), ("Pod", "pod")]),
        (["pods"], [("Pod", None)]),
        (["PODS"], [("Pod", None)]),
        (["pod/web", "deploy/api"], [("Pod", "web"), ("Deployment", "api")]),
        (["sts", "db"], [("StatefulSet", "db")]),
        (["cronjobs/night"], [("CronJob", "night")]),
        (["jobs"], [("Job", None)]),
        ([], []),
    ],
)
def test_words_mean_what_they_mean_to_kubectl(words, found):
    assert [(target.kind, target.name) for target in targets_of(words)] == found


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["pod/web", "db"], "expected TYPE/NAME for each"),
        (["svc/web"], "found the type 'svc', expected one of po, deploy"),
        (["pod/"], "expected TYPE/NAME such as pod/web"),
        (["pod/a/b"], "expected TYPE/NAME such as pod/web"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, text):
    with pytest.raises(ConfigError) as caught:
        targets_of(words)
    assert text in str(caught.value)


def pod(name, *owners):
    references = [{"kind": k, "name": n, "controller": c} for k, n, c in owners]
    return {"metadata": {"name": name, "ownerReferences": references}}


def test_a_workload_is_met_by_its_pods_only():
    own, other = pod("web-0", ("Deployment", "web", True)), pod("web-0")
    assert owner_text(own) == "Deployment/web" and owner_text(other) == ""
    assert Target("Deployment", "web").is_met_by(own)
    assert not Target("Deployment", "web").is_met_by(other)
    assert not Target("StatefulSet", "web").is_met_by(own)
    assert Target("Deployment").is_met_by(own)
    assert not Target("Deployment", "web").is_met_by(pod("x", ("Deployment", "web", False)))
    named = [Target(name="web-0"), Target(name="db"), Target("Job", "x"), Target()]
    assert [target.title for target in missing([own], named)] == ["pod/db", "job/x"]
