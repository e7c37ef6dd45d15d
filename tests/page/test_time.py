"""The past: a slider over what the agent remembers, drawn by the same map, and charts."""

import pytest
from tests.page.conftest import opened
from tests.page.reading import each
from tests.page.test_live import own, until_own
from tests.page.world import SMALL, World, container, pod

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def host():
    with World(machine="2s:1n:8c:2t", config=SMALL, devices=()) as found:
        for number, cpus in enumerate((2, 4, 40, 6)):
            found.apply(pod(f"p{number}", container(cpu=str(cpus), memory="1Gi")))
        found.until(
            lambda: len(found.request("GET", "/history").json()["moments"]) >= 4, "the moments"
        )
        yield found


@pytest.fixture
def page(browser, host):
    for found in opened(browser, host.url):
        found.wait_for_selector("#time:not([hidden])")
        yield found


def back_to(page, text):
    """Goes back step by step to the moment of which the page says this."""
    for _ in range(10):
        page.click("#earlier")
        if text in page.inner_text("#moment"):
            page.wait_for_timeout(300)
            return
    raise AssertionError(f"no such moment; the last is {page.inner_text('#moment')}")


def test_the_slider_shows_who_sat_where_and_now_is_one_step_away(page):
    assert own(page) == 12
    back_to(page, "shop/p1 admitted")
    until_own(page, 6)
    assert "The past" in page.inner_text("#past")
    assert page.is_visible("#pods-count") and page.inner_text("#pods-count") == "2"
    assert not page.is_visible("#ask")  # what fits is asked of now
    page.focus("#slider")
    page.keyboard.press("ArrowLeft")
    until_own(page, 2)
    page.click("#past >> text=Back to now")
    until_own(page, 12)
    assert not page.is_visible("#past") and page.is_visible("#ask")


def test_a_refusal_of_the_past_is_there_with_its_cause_and_trace(page):
    back_to(page, "shop/p2 refused")
    assert "asks for 40 exclusive CPUs" in page.inner_text("#past")
    page.click("#past summary")
    assert "refused by the topology policy" in page.inner_text("#past pre")
    page.click(".row:has-text('shop/p2')")
    assert "Why it was refused" in page.inner_text("#dock")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    until_own(page, 12)


def test_what_happens_meanwhile_waits_until_one_is_back(page, host):
    back_to(page, "shop/p0 admitted")
    until_own(page, 2)
    most = int(page.get_attribute("#slider", "max"))
    host.apply(pod("meanwhile", container(cpu="2", memory="1Gi")))
    page.wait_for_function("n => Number(document.querySelector('#slider').max) > n", arg=most)
    assert own(page) == 2
    assert "shop/p0 admitted" in page.inner_text("#moment")
    page.click("#to-now")
    until_own(page, 14)
    host.request("DELETE", f"/pods/{host.pod_list()['meanwhile']['metadata']['uid']}")
    until_own(page, 12)


def test_charts_say_what_they_show_and_mark_the_moment(page):
    page.wait_for_function("() => document.querySelector('.chart b').textContent === '12 of 31'")
    charts = each(page, ".chart svg", "e.getAttribute('aria-label')")
    assert [text.partition(":")[0] for text in charts] == [
        "CPUs given",
        "Memory given",
        "Pods refused",
        "Fragmented CPUs",
    ]
    assert "12 of 31" in charts[0] and charts[2].startswith("Pods refused: 1 in")
    assert not page.query_selector_all(".cursor")
    page.click("#earlier")
    page.wait_for_selector(".cursor", state="attached")


def test_the_past_outlives_the_agent(page, host):
    before = page.inner_text("#moment")
    host.stop()
    host.start()
    page.wait_for_selector("#lost:not([hidden])")
    page.click("text=Try now")
    page.wait_for_selector("#lost", state="hidden")
    back_to(page, "shop/p2 refused")
    assert own(page) == 6
    assert "remembered" in before
    page.noise.clear()  # of connections that were refused
