"""A page that stays open: what changes in it, and an agent that goes and comes back."""

import pytest
from tests.page.conftest import opened
from tests.page.reading import each
from tests.page.world import SMALL, World, container, pod, shared

pytestmark = pytest.mark.e2e


@pytest.fixture
def host():
    with World(machine="2s:1n:8c:2t", config=SMALL, devices=()) as found:
        found.fill([pod("first", container(cpu="4", memory="1Gi"))])
        yield found


@pytest.fixture
def page(browser, host):
    yield from opened(browser, host.url)


def own(page):
    return len(page.query_selector_all(".cpu.own[data-cpu]"))


def until_own(page, number):
    page.wait_for_function(
        "n => document.querySelectorAll('.cpu.own[data-cpu]').length === n", arg=number
    )


def test_a_pod_that_comes_or_goes_is_drawn_at_once_and_nothing_else_is_touched(page, host):
    assert own(page) == 4
    each(page, "#map .node, .cpu.own", "e.mark = 'same'")
    host.apply(pod("second", container(cpu="6", memory="1Gi")))
    until_own(page, 10)
    assert page.inner_text(".row:has-text('second') .right").startswith("6 CPUs")
    assert each(page, "#map .node", "e.mark") == ["same", "same"]
    assert each(page, ".cpu.own[data-cpu]", "e.mark").count("same") == 4
    host.request("DELETE", f"/pods/{host.pod_list()['second']['metadata']['uid']}")
    until_own(page, 4)
    page.wait_for_selector(".row:has-text('second')", state="detached")


def test_a_storm_of_events_does_not_put_off_the_next_look(page):
    asked = []
    page.on("request", lambda one: asked.append(one.url) if one.url.endswith("/node") else None)
    page.evaluate("""() => new Promise(done => { let n = 0; const again = () => {
      stream.dispatchEvent(new MessageEvent('pod_admitted', {data: '{}'}));
      if (++n < 40) setTimeout(again, 50); else done();
    }; again(); })""")
    assert 2 <= len(asked) < 40  # in two seconds or more, of 40 events


def test_what_somebody_reads_or_types_stays_while_pods_come(page, host):
    page.fill("#filter", "first")
    page.click(".row:has-text('first')")
    page.click("#tab-text")
    page.fill("#manifest", "half a manifest")
    page.focus("#manifest")
    host.apply(pod("second", container(cpu="2")))
    until_own(page, 6)
    assert (
        page.input_value("#filter") == "first"
        and page.input_value("#manifest") == "half a manifest"
    )
    assert page.evaluate("document.activeElement.id") == "manifest"
    assert page.inner_text("#dock h2") == "shop/first"
    assert page.inner_text("#pods-count") == "1 of 2"


def test_an_agent_that_is_gone_is_unmistakable_and_comes_back_by_itself(page, host):
    host.apply(pod("refused", container(cpu="20", memory="1Gi")))
    page.wait_for_selector(".row:has-text('refused')")
    host.stop()
    page.wait_for_selector("#lost:not([hidden])")
    page.wait_for_timeout(2500)
    lost = page.inner_text("#lost")
    assert "No connection to the agent" in lost and "What you see is" in lost
    assert int(lost.partition("What you see is ")[2].split()[0]) >= 2
    assert (
        page.evaluate("parseFloat(getComputedStyle(document.querySelector('#lost b')).fontSize)")
        > 18
    )
    assert page.inner_text("#live") == "not connected"
    assert page.title().startswith("⚠")
    assert "grayscale" in page.evaluate("getComputedStyle(document.querySelector('.page')).filter")
    host.start()
    page.wait_for_selector("#lost", state="hidden", timeout=30_000)
    page.wait_for_selector("#live:has-text('live, as of')")
    assert own(page) == 4 and not page.title().startswith("⚠")
    page.click(".row:has-text('refused')")
    # Why it was refused is known although this agent has not refused it.
    page.wait_for_selector("#dock .changes li")
    assert "asks for 20 exclusive CPUs" in page.inner_text("#dock")
    host.apply(pod("after", container(cpu="2")))
    until_own(page, 6)
    page.noise.clear()  # of connections that were refused


def test_a_page_without_a_stream_asks_and_says_so(browser, host):
    for page in _without_stream(browser, host):
        assert "asked every 15 s" in page.inner_text("#live")
        assert page.is_hidden("#lost")
        host.apply(pod("second", container(cpu="2")))
        page.wait_for_selector(".row:has-text('second')", timeout=30_000)


def _without_stream(browser, host):
    found = browser.new_page()
    found.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
    found.goto(host.url)
    found.wait_for_selector("#map .node")
    found.wait_for_function("() => document.querySelector('#live').textContent.includes('asked')")
    yield found
    found.close()


def test_problems_stand_on_top(browser, host):
    (host.pods / "bad.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: [")
    for page in opened(browser, host.url):
        page.wait_for_selector(
            "#manifests:not([hidden])", timeout=25_000
        )  # told with the next sign of life
        assert "bad.yaml" in page.inner_text("#manifests")
        assert "bad.yaml" in page.inner_text("#problems")
        page.noise.clear()  # /readyz answers 503 with the problems


def test_200_pods_are_shown_a_part_at_a_time(browser, host):
    host.fill([shared(f"p{number:03}") for number in range(100)])
    for page in opened(browser, host.url):
        assert page.inner_text("#pods-count") == "101"
        assert len(page.query_selector_all("#pods .row")) == 60
        page.click("text=Show 41 more")
        assert len(page.query_selector_all("#pods .row")) == 101
        host.apply(pod("late", container(cpu="2")))
        until_own(page, 6)
