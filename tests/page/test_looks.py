"""What the page is like for everybody: with axe-core, dark, on a phone, small, and with hostile names."""

import pytest
from tests.page.conftest import opened
from tests.page.world import World, container, pod
from tests.real.browser import axe

from numalign.web.page import HOST

pytestmark = pytest.mark.e2e

HOSTILE = (
    "<img src=x onerror=document.title='pwned'>",
    "</script><script>document.title='pwned'</script>",
    '"><svg onload=document.title="pwned">',
    "a‮evil",
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


def test_dark_is_dark_and_light_is_light(browser, world):
    def brightness(scheme):
        for page in opened(browser, world.url, color_scheme=scheme):
            found = page.evaluate(
                "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
            )
        return sum(found)

    assert brightness("dark") < 100 < 600 < brightness("light")


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


def test_hostile_names_stay_text(browser):
    with World(machine="2s:1n:8c:2t", config={"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
               "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}, devices=()) as world:  # fmt: skip
        made = pod("fine", container(cpu="1"), owner=f"Evil/{HOSTILE[0]}")
        found = world.apply(made)
        assert found.status_code == 201, found.text
        for page in opened(browser, world.url):
            # What Kubernetes' rules for names would never let in: an agent that was tampered with.
            def tampered(route):
                answer = route.fetch()
                body = answer.json()
                [item] = body["items"]
                copies = []
                for number, text in enumerate(HOSTILE):
                    one = {
                        **item,
                        "metadata": {
                            **item["metadata"],
                            "name": text,
                            "namespace": text,
                            "uid": f"{number}{text}",
                        },
                    }
                    one["status"] = {
                        **item["status"],
                        "reason": text,
                        "message": text,
                        "phase": "Failed",
                    }
                    one["numalign"] = {**item["numalign"], "why": text, "containers": {}}
                    copies.append(one)
                body["items"] = [item, *copies]
                route.fulfill(response=answer, json=body)

            page.route("**/pods", tampered)
            page.reload()
            page.wait_for_selector("#map .node")
            assert len(page.query_selector_all("#pods .row.member, #pods .row[data-uid]")) >= len(
                HOSTILE
            )
            for row in page.query_selector_all("#pods .row[data-uid]"):
                row.click()
                page.wait_for_timeout(50)
            page.wait_for_timeout(300)
            assert page.title() == "2s:1n:8c:2t – numalign"
            assert page.query_selector_all("img, #pods svg, #dock svg, #pods script") == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.noise.clear()  # of pods that the agent does not know
