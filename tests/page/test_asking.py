"""What would fit: by a form, by a pasted manifest, by reference shapes; drawn into the map."""

import json

import pytest
from tests.page.reading import cells, cpus
from tests.page.world import GPU, container, pod

from numalign.core.values.sets import CpuSet

pytestmark = pytest.mark.e2e


def ghosts(page):
    return cpus(page, ".cpu.ghost")


def answer(page):
    page.wait_for_selector("#answer .verdict, #answer .bad")
    return page.inner_text("#answer")


@pytest.fixture(autouse=True)
def unchanged(world):
    before = [world.request("GET", path).json() for path in ("/node", "/pods")]
    yield
    assert [world.request("GET", path).json() for path in ("/node", "/pods")] == before


def test_the_form_answers_and_draws_where_the_pod_would_sit(page, world):
    page.fill("[name=cpu]", "8")
    page.fill("[name=memory]", "16Gi")
    page.click("#by-form >> text=Ask")
    assert "admitted here, CPUs" in answer(page)
    given = ghosts(page)
    assert len(given) == 8
    [node] = [
        n for n in world.node()["nodes"] if set(given) <= set(CpuSet.parse(n["cpus"]["free"]))
    ]
    assert f"on node {node['id']}" in answer(page)
    assert len(page.query_selector_all(f".node[data-node='{node['id']}'] .bar i.ghost")) == 1
    page.click("#answer >> text=Clear")
    assert ghosts(page) == [] and page.query_selector_all(".bar i.ghost") == []


def test_several_are_asked_one_after_the_other(page):
    page.fill("[name=cpu]", "16")
    page.fill("[name='=count']", "9")
    page.click("#by-form >> text=Ask")
    assert "3 of 9 are admitted." in answer(page)
    assert len(ghosts(page)) == 48
    assert "What would let it in" in answer(page)


def test_what_is_refused_says_why_and_what_would_help(page):
    page.fill("[name=cpu]", "40")
    page.click("#by-form >> text=Ask")
    told = answer(page)
    assert "asks for 40 exclusive CPUs" in told
    assert page.query_selector_all("#answer .changes li")
    assert ghosts(page) == []


def test_a_pasted_manifest_is_answered(page):
    page.click("#tab-text")
    wanted = pod("asked", container(cpu="2", memory="1Gi", **{GPU: "1"}), namespace="ml")
    page.fill("#manifest", json.dumps(wanted))
    page.click("#by-text >> text=Ask")
    told = answer(page)
    assert "nvidia.com/gpu" in told and "ml/asked" in told
    page.fill("#manifest", "apiVersion: v1\nkind: Pod\nmetadata: {name: [\n")
    page.click("#by-text >> text=Ask")
    page.wait_for_selector("#answer .bad")
    assert "line" in page.inner_text("#answer .bad")
    page.noise.clear()  # the browser says on its console that it was refused, too


def test_the_form_becomes_a_manifest(page):
    page.fill("[name=cpu]", "3")
    page.fill(f"[name='{GPU}']", "1")
    page.select_option("[name='=class']", "burstable")
    page.click("text=As a manifest")
    found = json.loads(page.input_value("#manifest"))
    resources = found["spec"]["containers"][0]["resources"]
    assert resources["requests"]["cpu"] == "3" and resources["limits"] == {GPU: "1"}
    assert page.evaluate("document.activeElement.id") == "manifest"


def test_requests_only_are_asked_about_as_such(page):
    page.fill("[name=cpu]", "40")
    page.select_option("[name='=class']", "burstable")
    page.click("#by-form >> text=Ask")
    assert "admitted here, the shared pool" in answer(page)
    assert ghosts(page) == []


def test_an_empty_question_is_not_sent(page):
    page.fill("[name=cpu]", "")
    page.fill("[name=memory]", "")
    page.click("#by-form >> text=Ask")
    assert answer(page) == "Fill in at least one amount."


def test_it_says_what_the_policies_make_of_the_amounts(page):
    page.fill("[name=cpu]", "4")
    assert page.inner_text("#policy-hint") == (
        "4 CPUs of its own; what is its own comes from one NUMA node, or it is refused "
        "(single-numa-node per container)."
    )
    page.fill("[name=cpu]", "3.5")
    hint = page.inner_text("#policy-hint")
    assert hint.startswith("In the shared pool of CPUs, since only whole CPUs are given;")
    page.fill("[name=cpu]", "4")
    page.select_option("[name='=class']", "burstable")
    assert "a Burstable pod has none of its own" in page.inner_text("#policy-hint")


def test_too_many_questions_are_told_in_words(page):
    told = {"error": "too many questions", "reason": "TooManyRequests"}
    page.route(
        "**/admission",
        lambda route: route.fulfill(status=429, headers={"retry-after": "2"}, json=told),
    )
    page.click("#by-form >> text=Ask")
    assert answer(page) == "too many questions; try again in 2 s"
    page.noise.clear()  # the browser says it on its console, too


def test_reference_shapes_say_how_many_more_and_what_then_lacks(page, world):
    page.wait_for_selector("#shapes tbody tr")
    told = cells(page, "#shapes tbody tr")
    capacity = world.request("GET", "/capacity").json()["shapes"]
    assert [(row[0], row[2], row[3]) for row in told] == [
        (one["name"], str(one["fits"]), one["binding"]) for one in capacity
    ]
    page.click("#shapes tr:has-text('web') >> text=Show")
    fits = next(one["fits"] for one in capacity if one["name"] == "web")
    assert answer(page).startswith(f"{fits} of {fits} are admitted.")
    assert len(ghosts(page)) == 8 * fits
