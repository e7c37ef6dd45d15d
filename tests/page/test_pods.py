"""The list of pods and what is told of each: causes, remedies, keys, addresses, filters."""

import pytest
from tests.page.reading import cells, texts

pytestmark = pytest.mark.e2e


def rows(page):
    return texts(page, "#pods .row .name")


def chosen(page):
    return texts(page, "#pods [aria-current] .name")


def uid_of(world, name):
    return world.pod_list()[name]["metadata"]["uid"]


def test_refused_pods_come_first_with_their_cause_also_below_a_folded_owner(page, world):
    assert page.inner_text("#pods h3 >> nth=0") == "Refused or failed (4)"
    first = rows(page)[:6]
    assert [one for one in first if "/" in one and not one.endswith("3")] == [
        "core-5g/upf-2", "ml/llm-2", "ml/llm-big", "ml/two-gpus"]  # fmt: skip
    why = world.pod_list()["llm-big"]["numalign"]["why"]
    told = page.text_content(".row:has-text('llm-big') .cause")
    assert why == f"Pod ml/llm-big is refused: {told}"
    assert page.inner_text(".tile >> nth=0").split() == ["Refused", "or", "failed", "4", "pods"]


def test_a_click_on_a_refused_pod_tells_why_and_what_would_help_as_the_terminal_does(page, world):
    page.click(".row:has-text('llm-big')")
    page.wait_for_selector("#dock .changes li")
    found = world.request("GET", f"/pods/{uid_of(world, 'llm-big')}/explanation").json()
    assert found["sentence"] in page.inner_text("#dock")
    for fact in found["facts"]:
        assert fact in page.inner_text("#dock")
    changes = texts(page, "#dock .changes li")
    assert changes == [change["text"] for change in found["changes"]]
    words = world.pod_list()["llm-big"]["status"]["message"]
    assert found["message"] in words
    assert f"The kubelet's words: TopologyAffinityError: {words}" in page.inner_text("#dock")
    assert page.url.endswith("#pod/ml/llm-big")


def test_the_best_change_stands_in_the_list_before_anybody_asks(page, world):
    page.wait_for_selector(".row:has-text('llm-2') .hint")
    found = world.request("GET", f"/pods/{uid_of(world, 'llm-2')}/explanation").json()
    assert page.text_content(".row:has-text('llm-2') .hint") == f"→ {found['changes'][0]['text']}"


def test_a_click_on_a_pod_shows_placement_alignment_distance_and_decision(page, world):
    page.click(".row:has-text('data/batch')")
    placed = world.pod_list()["batch"]["numalign"]["containers"]["solve"]
    [told] = cells(page, "#dock tbody tr")
    assert told[:6] == ["solve", f"30 {placed['cpus']}", "7", "100 GiB on node 7", "yes", "10"]
    page.wait_for_selector("#dock th:has-text('cost')")
    assert cells(page, "#dock tbody tr")[0][6].startswith("all local")
    assert "Admitted at" in page.inner_text("#dock")
    page.click("#dock >> text=Show how it was decided")
    page.wait_for_selector("#dock .trace")
    assert "solve: together node 7, preferred: admitted" in page.inner_text("#dock .trace")
    assert len(page.query_selector_all("#map .cpu.lit")) == 30
    assert len(page.query_selector_all("#map .bar i.lit")) == 1


def test_a_pod_of_the_shared_pool_lights_where_it_may_run(page, world):
    page.click(".row:has-text('prometheus')")
    assert len(page.query_selector_all("#map .cpu.lit")) == world.node()["sharedPool"]["count"]


def test_replicas_stand_below_their_owner(page):
    assert "StatefulSet/db \N{MULTIPLICATION SIGN} 3" in rows(page)
    assert "data/db-1" not in rows(page)
    page.click(".row:has-text('StatefulSet/db')")
    assert {"data/db-0", "data/db-1", "data/db-2"} <= set(rows(page))
    assert page.get_attribute(".row:has-text('StatefulSet/db')", "aria-expanded") == "true"
    page.click(".row:has-text('StatefulSet/db')")
    assert "data/db-1" not in rows(page)


def test_a_link_to_a_pod_or_node_opens_it_and_going_back_closes_it(browser, world, page):
    page.goto(f"{world.url}#pod/data/db-2")
    page.wait_for_selector("#dock:not([hidden])")
    assert page.inner_text("#dock h2") == "data/db-2"
    assert chosen(page) == ["data/db-2"]
    page.goto(f"{world.url}#node/3")
    page.wait_for_selector("#dock h2:has-text('NUMA node 3')")
    assert page.evaluate("document.querySelectorAll('.node.chosen').length") == 1
    assert "12 to nodes 0-2" in page.inner_text("#dock")
    page.go_back()
    page.wait_for_selector("#dock h2:has-text('data/db-2')")
    page.goto(f"{world.url}#pod/data/gone")
    page.wait_for_selector("#dock h2:has-text('Pod data/gone is not here')")
    page.goto(f"{world.url}#pod/%E0%A4%A")  # not even a name
    page.wait_for_selector("#dock h2:has-text('is not here')")


def test_all_of_it_works_by_keys(page):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("batch")
    assert rows(page) == ["data/batch"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#dock h2") == "data/batch"
    page.keyboard.press("Escape")
    assert not page.is_visible("#dock")
    page.focus("#filter")
    page.keyboard.press("Escape")
    assert len(rows(page)) > 10
    page.focus("button.node-name[data-node='0']")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.uid")  # the first pod of node 0
    assert len(page.query_selector_all("#map .cpu.lit")) > 0
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.inner_text("#dock h2") == "NUMA node 0"


def test_filters_by_namespace_state_and_node(page):
    page.select_option("#by-namespace", "ml")
    assert page.inner_text("#pods-count") == "5 of 22"
    page.select_option("#by-state", "Running")
    assert page.inner_text("#pods-count") == "2 of 22"
    page.select_option("#by-namespace", "")
    page.select_option("#by-state", "")
    page.select_option("#by-node", "7")
    assert rows(page) == ["data/batch"]
    page.fill("#filter", "nothing-like-this")
    assert "No pod matches the filter." in page.inner_text("#pods")
