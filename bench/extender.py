"""The stock kube-scheduler with and without our extender, on a real API server.

1,000 pods over 500 Node objects that publish their NUMA nodes; the pods are there before the
scheduler starts, and the time until the last one is bound counts. Both runs have the same
configuration but for the extender, and a client without a rate limit.

Each pod goes through several processes one after the other, so where all cores are busy with other
work most of the time is waiting for one. The CPU time of each program per pod tells more there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.cluster import work
from tests.cluster.fleet import FleetHost, HostPlan
from tests.cluster.schedulers import stock_config, with_extender
from tests.real.control_plane import ControlPlane, control_plane, free_ports
from tests.real.kept import MissingError

from numalign.adapters.kubernetes.api_server import STRATEGIC, ApiServer, Changed, Listed
from numalign.wire.kubernetes import crd, nrt
from numalign.wire.kubernetes.api import HOSTS, NRTS, PODS, head_of
from numalign.wire.kubernetes.scheduling import pod_from_json

HOST_COUNT = 500
POD_COUNT = 1_000
WRITERS = 16
SECONDS_MAX = 300.0
QUIET_SECONDS = 2.0  # without a change to any host: the controllers have seen them all
SHAPE = "2s:2n:8c:2t,mem=64Gi"  # 8 NUMA zones are in bench/scheduler; here the server is the limit
REQUESTS_PER_SECOND = 5000  # no limit of the scheduler's own


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave."""

    name: str
    seconds: float
    cpu_ms: dict[str, float]  # per pod, by program
    calls: str = ""  # what the extender says of its own time

    @property
    def per_second(self) -> float:
        """Pods bound per second."""
        return POD_COUNT / self.seconds


def run() -> None:
    """Measures both, and prints the ratio."""
    print(f"\nstock kube-scheduler, {POD_COUNT} pods over {HOST_COUNT} hosts, real API server")
    try:
        runs = [
            measured("alone", None),
            measured("exact", "exact"),
            measured("upstream", "upstream"),
        ]
    except MissingError as missing:
        print(f"  not measured: {missing}")
        return
    alone = runs[0].per_second
    for one in runs:
        name = "without extender" if one is runs[0] else f"with extender, level {one.name}"
        ratio = f"{one.per_second / alone:6.2f} of it" if one is not runs[0] else ""
        print(
            f"  {name:<40}{one.seconds:8.2f} s{one.per_second:10.0f} pods/s  {ratio}  {one.calls}"
        )
        used = ", ".join(f"{program} {ms:.1f}" for program, ms in one.cpu_ms.items())
        print(f"    ms of CPU per pod: {sum(one.cpu_ms.values()):.1f} ({used})")


def measured(name: str, level: str | None) -> Run:
    """One run on a control plane of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="nb-") as place,
        control_plane(Path(place), has_scheduler=False) as plane,
    ):
        plane.apply(crd.text())
        plane.kubectl("wait", "--for=condition=Established", f"crd/{crd.NAME}", "--timeout=20s")
        asyncio.run(_filled(plane))
        if level is None:
            return Run(name, *asyncio.run(_timed(plane, stock_config(REQUESTS_PER_SECOND))))
        (port,) = free_ports(1)
        process = _extender(plane, port, level)
        try:
            pids = {"extender": process.pid}
            asking = with_extender(
                f"http://127.0.0.1:{port}", requests_per_second=REQUESTS_PER_SECOND
            )
            return Run(name, *asyncio.run(_timed(plane, asking, pids)), _calls(port))
        finally:
            process.terminate()
            process.wait(10)


def _calls(port: int) -> str:
    """The mean time of each verb, as the extender has counted it."""
    found: dict[str, float] = {}
    for line in httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines():
        if line.startswith("numalign_scheduler_extender_seconds_"):
            key, _, value = line.rpartition(" ")
            found[key.removeprefix("numalign_scheduler_extender_seconds_")] = float(value)
    means = []
    for verb in ("filter", "prioritize"):
        count = found.get(f'count{{verb="{verb}"}}', 0.0)
        if count:
            mean = 1000 * found[f'sum{{verb="{verb}"}}'] / count
            means.append(f"{verb} {mean:.2f} ms")
    return ", ".join(means)


async def _filled(plane: ControlPlane) -> None:
    async with ApiServer.connect(plane.kubeconfig) as api:
        await _many(range(HOST_COUNT), lambda number: _host(api, number))
        await _many(range(POD_COUNT), lambda number: _pod(api, number))
        await _quiet(api)


async def _quiet(api: ApiServer) -> None:
    """Waits until the controllers have done with the new hosts, which they mark one by one."""
    before, since = set[str](), time.monotonic()
    async with asyncio.timeout(SECONDS_MAX):
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.2)
            raw, _ = await api.listed(HOSTS)
            now = {head_of(one).resource_version for one in raw}
            if now != before:
                before, since = now, time.monotonic()


async def _many(numbers: Iterable[int], work_of: Callable[[int], Awaitable[None]]) -> None:
    waiting = iter(numbers)

    async def writer() -> None:
        for number in waiting:
            await work_of(number)

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


async def _host(api: ApiServer, number: int) -> None:
    host = FleetHost(HostPlan(f"host-{number:03d}", SHAPE))
    node = host.node()
    await api.create(HOSTS, node)
    status = {"status": node["status"]}
    await api.patch(HOSTS, host.plan.name, status, form=STRATEGIC, part="status")
    await api.create(NRTS, nrt.body(host.topology()))


async def _pod(api: ApiServer, number: int) -> None:
    body = json.loads(work.pod(f"pod-{number:04d}", cpu=str(1 + number % 4)))
    await api.create(PODS, body, "default")


def _extender(plane: ControlPlane, port: int, level: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "numalign", "scheduler", "--extender", "--level", level]
    command += ["--listen", f"127.0.0.1:{port}", "--kubeconfig", str(plane.kubeconfig)]
    with (plane.place / "extender.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return process
        except httpx.HTTPError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError((plane.place / "extender.log").read_text()[-2000:])


async def _timed(
    plane: ControlPlane, config: str, others: Mapping[str, int] | None = None
) -> tuple[float, dict[str, float]]:
    """Seconds from the first to the last bound pod, and the CPU time that each of them took."""
    pids = {**plane.pids, **(others or {})}
    before = {program: _cpu_seconds(pid) for program, pid in pids.items()}
    seconds = await _until_bound(plane, config)
    pids = {**plane.pids, **(others or {})}
    used = {p: _cpu_seconds(pid) - before.get(p, 0.0) for p, pid in pids.items()}
    return seconds, {program: 1000 * s / POD_COUNT for program, s in used.items()}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _until_bound(plane: ControlPlane, config: str) -> float:
    async with ApiServer.connect(plane.kubeconfig) as api:
        bound: set[str] = set()
        first = 0.0
        plane.start_scheduler(config)
        async with asyncio.timeout(SECONDS_MAX):
            async for seen in api.watched(PODS, _bound, fields="spec.nodeName!="):
                match seen:
                    case Listed(items):
                        bound |= set(items)
                    case Changed(item):
                        bound.add(item)
                    case _:
                        pass
                if bound and not first:
                    first = time.perf_counter()
                if len(bound) >= POD_COUNT:
                    return time.perf_counter() - first
    raise AssertionError("the watch never ends")


def _bound(data: bytes) -> str:
    assert pod_from_json(data).host
    return head_of(data).name


if __name__ == "__main__":
    # Without this the programs of a control plane would outlive a run that is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run()
