"""What the page is like for everybody: axe-core, dark, on a phone, and with hostile names."""

import pytest
from tests.page.conftest import opened
from tests.page.world import SMALL, World, container, pod
from tests.real.browser import axe

from numalign.web.page import HOST

pytestmark = pytest.mark.e2e

HOSTILE = (
    "<img src=x onerror=document.title='pwned'>",
    "</script><script>document.title='pwned'</script>",
    '"><svg onload=document.title="pwned">',
    "a\u202eevil",
    "x" * 250,
)


def violations(page):
    # The policy of the page lets no other script in, so that axe comes in from outside.
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (v["id"], n["html"][:200], n.get("failureSummary", "")[:300])
        for v in found["violations"]
        for n in v["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_whatever_is_open(browser, world, scheme):
    for page in opened(browser, world.url, color_scheme=scheme):
        page.wait_for_selector(".row .hint")
        assert violations(page) == []
        page.click("#show-distances")
        page.click("#show-legend")
        page.click(".row:has-text('llm-big')")
        page.wait_for_selector("#dock .changes li")
        page.fill("[name=cpu]", "40")
        page.click("#by-form >> text=Ask")
        page.wait_for_selector("#answer .verdict")
        assert violations(page) == []
        page.click("button.node-name[data-node='1']")
        page.click("#tab-text")
        assert violations(page) == []


def test_axe_finds_nothing_in_the_past_or_without_the_agent(browser):
    with World(machine="2s:1n:8c:2t", config=SMALL, devices=()) as world:
        world.fill([pod("first"), pod("refused", container(cpu="40"))])
        for page in opened(browser, world.url):
            page.wait_for_selector("#time:not([hidden])")
            page.click("#earlier")
            page.wait_for_selector("#past:not([hidden])")
            page.wait_for_timeout(300)
            assert violations(page) == []
            page.click("#to-now")
            world.stop()
            page.wait_for_selector("#lost:not([hidden])")
            assert violations(page) == []
            page.noise.clear()  # of connections that were refused


def test_dark_is_dark_and_light_is_light(browser, world):
    def brightness(scheme):
        for page in opened(browser, world.url, color_scheme=scheme):
            found = page.evaluate(
                "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
            )
        return sum(found)

    assert brightness("dark") < 100
    assert brightness("light") > 600


def test_a_phone_shows_256_cpus_without_scrolling_for_ever(browser, world):
    for page in opened(browser, world.url):
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollHeight") < 4000
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert len(page.query_selector_all(".cpu[data-cpu]")) == 256
        assert violations(page) == []


def test_nothing_moves_for_those_who_want_that(browser, world):
    for page in opened(browser, world.url, reduced_motion="reduce"):
        assert page.evaluate("document.getAnimations().length") == 0


def test_it_is_small_and_its_policy_lets_nothing_else_run(page):
    assert len(HOST.text.encode()) < 300_000
    assert "unsafe" not in HOST.policy and "http:" not in HOST.policy
    page.evaluate("""() => { const one = document.createElement('script');
        one.textContent = "document.title = 'pwned'"; document.body.append(one); }""")
    assert page.title() != "pwned"
    assert any(
        "Content Security Policy" in text or "Content-Security-Policy" in text
        for text in page.noise
    )
    page.noise.clear()


def tampered(route):
    """Pods with names that Kubernetes' rules would never let in."""
    answer = route.fetch()
    body = answer.json()
    [item] = body["items"]
    for number, text in enumerate(HOSTILE):
        names = {"name": text, "namespace": text, "uid": f"{number}{text}"}
        status = {"reason": text, "message": text, "phase": "Failed"}
        body["items"].append(
            {
                **item,
                "metadata": {**item["metadata"], **names},
                "status": {**item["status"], **status},
                "numalign": {**item["numalign"], "why": text, "containers": {}},
            }
        )
    route.fulfill(response=answer, json=body)


def test_hostile_names_stay_text(browser):
    with World(machine="2s:1n:8c:2t", config=SMALL, devices=()) as world:
        found = world.apply(pod("fine", container(cpu="1"), owner=f"Evil/{HOSTILE[0]}"))
        assert found.status_code == 201, found.text
        for page in opened(browser, world.url):
            page.route("**/pods", tampered)
            page.reload()
            page.wait_for_selector("#map .node")
            rows = page.query_selector_all("#pods .row[data-uid]")
            assert len(rows) >= len(HOSTILE)
            for number in range(len(rows)):
                page.query_selector_all("#pods .row[data-uid]")[number].click()
                page.wait_for_timeout(50)
            page.wait_for_timeout(300)
            assert page.title() == "2s:1n:8c:2t \N{EN DASH} numalign"
            assert page.query_selector_all("img, #pods svg, #dock svg, #pods script") == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.noise.clear()  # of pods that the agent does not know
