"""The page in a real browser: how large it is, how soon it is drawn, what an update costs.

`python -m bench.page` needs Chromium and playwright, as `make e2e` does.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from pathlib import Path
from typing import Final

import httpx
from playwright.sync_api import BrowserContext
from tests.page.world import World, container, pod, shared
from tests.real.browser import browser

from numalign.web.page import HOST

PODS: Final = 200
OPEN_PAGES: Final = 50
IDLE_SECONDS: Final = 60.0
LOADS: Final = 7
UPDATES: Final = 30
# When the map is there and the browser has had the time to paint it.
_DRAWN: Final = """() => new Promise(done => {
  const painted = () => requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  const look = () => document.querySelector('#map .node') ? painted() : setTimeout(look, 2);
  look();
})"""
# What a page does after an event, with the answers of before and after in turn.
_UPDATES: Final = """([before, after, times]) => {
  const found = [];
  for (let i = 0; i < times; i++) {
    const [node, pods] = i % 2 ? before : after, start = performance.now();
    values.node = JSON.parse(node);
    values.pods = JSON.parse(pods);
    drawAll(nowView());
    document.body.getBoundingClientRect();  // lays it out
    found.push(performance.now() - start);
  }
  return found;
}"""


def main() -> None:
    print(f"the page: {len(HOST.text.encode()) / 1e3:.0f} kB")
    with World() as world:
        world.fill()
        with browser() as running:
            _first_paint(world, running)
            _update(world, running)
        asyncio.run(_idle(world))


def _first_paint(world: World, running: BrowserContext) -> None:
    times, contents = [], []
    for _ in range(LOADS):
        page = running.new_page()
        page.goto(world.url, wait_until="commit")
        times.append(page.evaluate(_DRAWN))
        contents.append(page.evaluate("performance.getEntriesByType('paint').pop().startTime"))
        page.close()
    print(
        f"256 CPUs, {len(world.pod_list())} pods: first content {statistics.median(contents):.0f} "
        f"ms, map painted {statistics.median(times):.0f} ms (worst {max(times):.0f} ms) of {LOADS}"
    )


def _update(world: World, running: BrowserContext) -> None:
    number = PODS - len(world.pod_list()) - 1
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(world.state / "agent.sock"))) as client:
        for n in range(number):
            made = (
                pod(f"own-{n}", container(cpu="1", memory="1Gi"), owner=f"ReplicaSet/r{n % 10}")
                if n < 60
                else shared(f"shared-{n}", owner=f"ReplicaSet/s{n % 20}")
            )
            client.post("http://agent/pods", json=made)
    page = running.new_page()
    page.goto(world.url)
    page.wait_for_selector("#map .node")
    page.wait_for_timeout(2000)
    before = [world.request("GET", path).text for path in ("/node", "/pods")]
    world.apply(pod("one-more", container(cpu="2", memory="1Gi")))
    after = [world.request("GET", path).text for path in ("/node", "/pods")]
    page.wait_for_timeout(2000)
    times = page.evaluate(_UPDATES, [before, after, UPDATES])[2:]
    sizes = sum(map(len, after)) / 1e3
    print(
        f"an update with {len(world.pod_list())} pods ({sizes:.0f} kB of JSON): "
        f"median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms of {len(times)}"
    )


async def _idle(world: World) -> None:
    """What open pages that nobody changes cost the agent: each asks once and then follows."""
    limits = httpx.Limits(max_connections=None)
    followed = []

    async def one(client: httpx.AsyncClient) -> None:
        for path in ("", "node", "pods", "readyz", "manifests", "decisions?trace=false&limit=100",
                     "history?limit=300", "capacity"):  # fmt: skip
            (await client.get(world.url + path)).raise_for_status()
        async with client.stream("GET", world.url + "events") as stream:
            followed.append(stream.status_code)
            async for _ in stream.aiter_bytes():
                pass

    async with httpx.AsyncClient(limits=limits, timeout=120) as client:
        pages = [asyncio.create_task(one(client)) for _ in range(OPEN_PAGES)]
        while len(followed) < OPEN_PAGES:
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)
        assert world.process is not None
        start, began = _cpu_seconds(world.process.pid), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        used = _cpu_seconds(world.process.pid) - start
        share = used / (time.monotonic() - began)
        for page in pages:
            page.cancel()
        await asyncio.gather(*pages, return_exceptions=True)
    live = followed.count(200)
    print(f"{OPEN_PAGES} open pages, {live} of them live, idle: {100 * share:.2f} % of a core")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
