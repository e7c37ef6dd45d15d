"""The page of a fleet in a real browser: two hundred hosts of a simulation, and hostile ones."""

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import msgspec
import pytest
from tests.paths import CHECKOUT
from tests.real.browser import axe

from numalign.adapters.sources.fleet_captures import read_fleet
from numalign.wire.fleet.capture import FleetCapture, packed

pytestmark = pytest.mark.e2e

HOSTS = 200
SCENARIO = f"""
apiVersion: numalign.io/v1
kind: Scenario
name: two-hundred
hosts:
  - group: edge
    count: {HOSTS - 50}
    machine: 2s:1n:8c:2t,mem=64Gi
    kubelet: {{topologyManagerPolicy: single-numa-node, reservedSystemCPUs: "0"}}
  - group: large
    count: 50
    machine: epyc-2s-nps4
    kubelet: {{topologyManagerPolicy: restricted, reservedSystemCPUs: "0,64"}}
work:
  - preset: telco
    pods: 1500
    hours: 10
schedulers: [totals]
seeds: 1
"""
SHAPES = "small: {cpu: 2, memory: 1Gi, weight: 3}\nlarge: {cpu: 12, memory: 16Gi}\n"
EVIL = "<img src=x onerror=document.title='stolen'>"


@contextmanager
def viewed(*arguments):
    command = [
        sys.executable,
        "-m",
        "numalign",
        "view",
        *map(str, arguments),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT)
    timer = threading.Timer(400, process.kill)
    timer.start()
    try:
        yield re.fullmatch(r"In a browser: (\S+)\n", process.stdout.readline())[1]
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def changed(capture):
    """The same fleet with trouble in it: refusals, hosts that say nothing, hostile names."""
    hosts = [json.loads(bytes(one)) for one in capture.hosts]
    pods = [json.loads(bytes(one)) for one in capture.pods]
    hosts[1]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    hosts[2]["metadata"]["labels"]["node-pool"] = EVIL
    hosts.append({"metadata": {"name": "silent", "labels": {}}, "status": hosts[0]["status"]})
    name = hosts[0]["metadata"]["name"]
    refused = {**pods[0], "metadata": {"name": EVIL, "namespace": "shop", "uid": "refused"}}
    refused["spec"] = {**pods[0]["spec"], "nodeName": name}
    refused["status"] = {"phase": "Failed", "reason": "TopologyAffinityError"}
    container = {"name": "c", "resources": {"limits": {"cpu": "400", "memory": "1Gi"}}}
    waiting = {
        "metadata": {"name": EVIL, "namespace": "shop", "uid": "waiting"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
    raw = lambda found: tuple(msgspec.Raw(msgspec.json.encode(one)) for one in found)  # noqa: E731
    return FleetCapture(raw(hosts), capture.topologies, raw([*pods, refused, waiting]))


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "shapes.yaml").write_text(SHAPES)
    made = folder / "made.tar.gz"
    command = [
        sys.executable,
        "-m",
        "numalign",
        "simulate",
        folder / "scenario.yaml",
        "--fleet",
        "--at",
        "6h",
        "-o",
        made,
    ]
    subprocess.run([*map(str, command)], check=True, cwd=CHECKOUT, timeout=300)
    (folder / "fleet.tar.gz").write_bytes(packed(changed(read_fleet(made))))
    with viewed("--from", folder / "fleet.tar.gz", "--shapes", folder / "shapes.yaml") as found:
        yield found


@pytest.fixture
def page(browser, url):
    found = browser.new_page()
    noise, elsewhere = [], []
    found.on("pageerror", lambda error: noise.append(str(error)))
    found.on("console", lambda one: noise.append(one.text) if one.type == "error" else None)
    found.on(
        "request",
        lambda one: elsewhere.append(one.url) if not one.url.startswith((url, "data:")) else None,
    )
    found.set_default_timeout(15_000)
    found.goto(url)
    found.wait_for_selector(".host")
    yield found
    found.close()
    assert (noise, elsewhere) == ([], [])


def tiles(page):
    return page.eval_on_selector_all(".host", "all => all.map(one => one.dataset.name)")


def shown_count(page):
    return page.inner_text("#hosts-count")


def test_all_hosts_are_there_but_only_those_in_sight_are_drawn(page):
    assert shown_count(page) == str(HOSTS + 1)
    assert 10 < len(tiles(page)) < 120
    assert tiles(page)[0] == "edge-0000"
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector("[data-name=silent]")
    assert "edge-0000" not in tiles(page)


def test_a_tile_says_what_is_free_and_what_is_wrong(page):
    text = page.inner_text("[data-name=edge-0000]")
    assert "of 31 CPUs free" in text
    assert "1 pod refused here" in text
    assert page.locator("[data-name=edge-0000] svg path.cpu").count() == 1
    assert "NotReady" in page.inner_text("[data-name=edge-0001]")
    page.fill("#filter", "silent")
    assert "publishes nothing" in page.inner_text("[data-name=silent]")
    assert page.locator("[data-name=silent] a").count() == 0


def test_hosts_are_filtered_by_text_pool_policy_and_trouble(page):
    page.fill("#filter", "edge-000")
    assert shown_count(page) == f"10 of {HOSTS + 1}"
    page.fill("#filter", "")
    page.select_option("#by-pool", "large")
    assert shown_count(page) == f"50 of {HOSTS + 1}"
    page.select_option("#by-pool", "")
    page.select_option("#by-policy", "restricted, container")
    assert shown_count(page) == f"50 of {HOSTS + 1}"
    page.select_option("#by-policy", "")
    page.click("[data-only=refused]")
    assert tiles(page) == ["edge-0000"]
    page.click("[data-only=refused]")
    page.click("[data-only=unready]")
    assert tiles(page) == ["edge-0001"]
    assert "only=unready" in page.url, "the choice is in the address"
    page.reload()
    page.wait_for_selector(".host")
    assert tiles(page) == ["edge-0001"]
    page.click("[data-only=unready]")
    page.click("[data-only=stale]")
    assert tiles(page) == ["silent"]
    page.fill("#filter", "no such host")
    assert "no host matches" in page.inner_text("#hosts")


def test_hosts_are_ordered_as_asked(page):
    page.select_option("#sort", "free")
    free = page.eval_on_selector_all(
        ".host", "all => all.map(one => sum(known.get(one.dataset.name), 'cpus', 0))"
    )
    assert free == sorted(free, reverse=True)
    page.select_option("#sort", "fits:large")
    fits = page.eval_on_selector_all(
        ".host", "all => all.map(one => (known.get(one.dataset.name).fits || {}).large || 0)"
    )
    assert fits == sorted(fits, reverse=True)
    assert fits[0] > 0


def test_pods_that_wait_say_why_and_shapes_how_many_more(page):
    text = page.inner_text("#pending")
    assert EVIL in text
    assert "400 CPUs" in text
    assert "hosts" in text.lower()
    assert "small" in page.inner_text("#shapes")
    whole = page.evaluate(
        "[...known.values()].reduce((all, tile) => all + ((tile.fits || {}).small || 0), 0)"
    )
    assert str(whole) in page.inner_text("#shapes")


def test_the_keyboard_goes_along_the_hosts_and_into_one(page):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.press("ArrowDown")
    here = lambda: page.evaluate("nameOf(document.activeElement)")  # noqa: E731
    assert here() == "edge-0000"
    page.keyboard.press("ArrowRight")
    assert here() == "edge-0001"
    columns = page.evaluate("grid.columns")
    page.keyboard.press("ArrowDown")
    assert here() == f"edge-{columns + 1:04}"
    page.keyboard.press("End")
    assert here() == "silent"
    page.keyboard.press("Home")
    assert here() == "edge-0000"
    page.keyboard.press("Enter")
    page.wait_for_selector("#map .node")
    assert page.url.endswith("/hosts/edge-0000/")
    assert "edge-0000" in page.inner_text("#name")
    assert page.get_attribute("#fleet", "href")
    page.click("#fleet")
    page.wait_for_selector("#hosts .host")


def test_hostile_names_are_text(page):
    assert page.title() != "stolen"
    assert page.locator("img").count() == 0
    page.fill("#filter", "edge-0002")
    assert EVIL in page.inner_text("[data-name=edge-0002]")


def test_an_update_of_all_hosts_is_quick(page):
    milliseconds = page.evaluate(
        """() => {
          const hosts = [...known.values()].map(tile => ({...tile, pods: 99}));
          const found = {...fleet, full: true, hosts};
          const began = performance.now();
          take(found); drawAll(); document.body.offsetHeight;
          return performance.now() - began;
        }"""
    )
    assert "99 pods" in page.inner_text(".host")
    assert milliseconds < 1_000, "far more than the 10 ms that it takes on an idle machine"


def test_a_server_that_goes_is_unmistakable(browser, tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace("1500", "20"))
    with viewed(tmp_path / "scenario.yaml", "--at", "1h") as url:
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector(".host")
        assert page.is_hidden("#lost")
    end = time.monotonic() + 20
    while page.is_hidden("#lost") and time.monotonic() < end:
        time.sleep(0.2)
    text = page.inner_text("#lost")
    page.close()
    assert "No answer for" in text
    assert "old" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nobody_is_kept_out(page, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(300)
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    told = [(one["id"], node["html"][:150]) for one in found for node in one["nodes"]]
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_print_shows_every_host(page):
    page.emulate_media(media="print")
    page.wait_for_function("n => document.querySelectorAll('.host').length === n", arg=HOSTS + 1)
    page.emulate_media(media="screen")
    page.wait_for_function("() => document.querySelectorAll('.host').length < 120")
