"""One run: a control plane of its own, hosts that publish, pods that wait, and a scheduler.

All pods are there before anybody may schedule; the time from the first to the last bound pod
counts, and the CPU time of every program from the moment in which scheduling is let loose. Ours
runs and knows the cluster by then, as the API server does: it waits for the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.cluster import work
from tests.cluster.fleet import FleetHost, HostPlan
from tests.cluster.schedulers import stock_config, with_extender
from tests.real.control_plane import ControlPlane, control_plane, free_ports

from numalign.adapters.kubernetes.api_server import STRATEGIC, ApiServer, Changed, Listed
from numalign.wire.kubernetes import crd, nrt
from numalign.wire.kubernetes.api import HOSTS, LEASES, NRTS, PODS, head_of
from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE, pod_from_json

WRITERS = 16
FILL_SECONDS_MAX = 600.0
QUIET_SECONDS = 2.0  # without a change to any host: the controllers have seen them all
SHAPE = "2s:2n:8c:2t,mem=64Gi"  # 8 NUMA zones are in bench/scheduler; here the server is the limit
REQUESTS_PER_SECOND = 5000  # no limit of the scheduler's own
# They mark every new host, with 20 requests per second by default: minutes before a run.
QUICK_CONTROLLERS = ("--kube-api-qps=1000", "--kube-api-burst=1000")
OURS = "numalign"
LEASE = ("kube-system", "bench")
GATED: dict[str, object] = {"schedulingGates": [{"name": PRE_PLACE_GATE}]}


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to schedule: the row of a table."""

    name: str
    arguments: tuple[str, ...] = ()  # of our scheduler; none: it does not run
    verbs: tuple[str, ...] = ()  # that the kube-scheduler asks it for
    has_stock: bool = True
    spec: dict[str, object] = field(default_factory=dict)  # of the pods

    @property
    def waits_for_lease(self) -> bool:
        return bool(self.arguments) and not self.verbs


@dataclass(frozen=True, slots=True)
class Size:
    hosts: int = 500
    pods: int = 1_000
    seconds_max: float = 300.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave."""

    bound: int
    seconds: float
    cpu_ms: dict[str, float]  # per pod, by program
    memory_mb: dict[str, float]
    left: int = 0  # pods without a host when time was up

    @property
    def per_second(self) -> float:
        """Pods bound per second."""
        return self.bound / self.seconds if self.seconds else 0.0


def measured(mode: Mode, size: Size) -> Run:
    """One run on a control plane of its own."""
    with filled_plane(mode, size) as plane:
        if not mode.arguments:
            return asyncio.run(_timed(plane, {}, size, stock_config(REQUESTS_PER_SECOND)))
        with ours(plane, mode) as (process, port):
            return burst(plane, mode, size, process.pid, port)


@contextlib.contextmanager
def filled_plane(mode: Mode, size: Size) -> Iterator[ControlPlane]:
    """A control plane with all hosts and pods, and nobody who schedules."""
    with (
        tempfile.TemporaryDirectory(prefix="nb-") as place,
        control_plane(
            Path(place), has_scheduler=False, controller_options=QUICK_CONTROLLERS
        ) as plane,
    ):
        plane.apply(crd.text())
        plane.kubectl("wait", "--for=condition=Established", f"crd/{crd.NAME}", "--timeout=20s")
        asyncio.run(_filled(plane, mode, size))
        yield plane


def burst(plane: ControlPlane, mode: Mode, size: Size, pid: int, port: int) -> Run:
    """All pods at once, with our scheduler."""
    config = None
    if mode.verbs:
        address, rate = f"http://127.0.0.1:{port}", REQUESTS_PER_SECOND
        config = with_extender(address, mode.verbs, requests_per_second=rate)
    elif mode.has_stock:
        plane.start_scheduler(stock_config(REQUESTS_PER_SECOND))
        time.sleep(3)  # it looks at all pods, which are gated
    return asyncio.run(_timed(plane, {OURS: pid}, size, config))


# What is there before.


async def _filled(plane: ControlPlane, mode: Mode, size: Size) -> None:
    async with ApiServer.connect(plane.kubeconfig) as api:
        await many(range(size.hosts), lambda number: _host(api, number))
        await many(range(size.pods), lambda number: make_pod(api, number, mode))
        await _quiet(api)


async def _quiet(api: ApiServer) -> None:
    """Waits until the controllers have done with the new hosts, which they mark one by one."""
    before, since = set[str](), time.monotonic()
    async with asyncio.timeout(FILL_SECONDS_MAX):
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.2)
            raw, _ = await api.listed(HOSTS)
            now = {head_of(one).resource_version for one in raw}
            if now != before:
                before, since = now, time.monotonic()


async def many(numbers: Iterable[int], work_of: Callable[[int], Awaitable[None]]) -> None:
    """Does something for each number, some at a time."""
    waiting = iter(numbers)

    async def writer() -> None:
        for number in waiting:
            await work_of(number)

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


async def _host(api: ApiServer, number: int) -> None:
    host = FleetHost(HostPlan(host_name(number), SHAPE))
    node = host.node()
    await api.create(HOSTS, node)
    status = {"status": node["status"]}
    await api.patch(HOSTS, host.plan.name, status, form=STRATEGIC, part="status")
    await api.create(NRTS, nrt.body(host.topology()))


def host_name(number: int) -> str:
    return f"host-{number:04d}"


def pod_name(number: int) -> str:
    return f"pod-{number:05d}"


async def make_pod(api: ApiServer, number: int, mode: Mode) -> None:
    body = json.loads(work.pod(pod_name(number), cpu=str(1 + number % 4), **mode.spec))
    await api.create(PODS, body, "default")


# Our scheduler.


@contextlib.contextmanager
def ours(
    plane: ControlPlane, mode: Mode, *, is_waiting: bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Our scheduler, ready, until the end of the block; it waits for the lease if it wants one."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "numalign", "scheduler", *mode.arguments]
    command += ["--listen", f"127.0.0.1:{port}", "--kubeconfig", str(plane.kubeconfig)]
    if mode.waits_for_lease:
        if is_waiting:
            _hold_lease(plane)
        command.append(f"--lease={'/'.join(LEASE)}")
    log = plane.place / "numalign.log"
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        _wait_ready(process, port, log)
        yield process, port
    finally:
        process.terminate()
        process.wait(10)


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(log.read_text()[-2000:])


def _hold_lease(plane: ControlPlane) -> None:
    namespace, name = LEASE
    held = {"holderIdentity": "bench", "leaseDurationSeconds": 3600}
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata}
    plane.apply(json.dumps({**body, "spec": held}))


# The run.


async def _timed(
    plane: ControlPlane, others: dict[str, int], size: Size, config: str | None
) -> Run:
    """Starts the stock scheduler with this configuration, or gives ours the lease."""
    before = {program: cpu_seconds(pid) for program, pid in {**plane.pids, **others}.items()}
    async with ApiServer.connect(plane.kubeconfig) as api:
        if config is not None:
            plane.start_scheduler(config)
        else:
            namespace, name = LEASE
            await api.delete(LEASES, name, namespace)
        times = await bound_times(api, size)
    pids = {**plane.pids, **others}
    used = {p: cpu_seconds(pid) - before.get(p, 0.0) for p, pid in pids.items()}
    return Run(
        len(times),
        max(times) - min(times) if times else 0.0,
        {program: 1000 * s / max(1, len(times)) for program, s in used.items()},
        {program: memory_mb(pid) for program, pid in pids.items()},
        size.pods - len(times),
    )


async def bound_times(api: ApiServer, size: Size) -> list[float]:
    """When each pod was seen bound, until all are or time is up."""
    bound: dict[str, float] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(size.seconds_max):
            async for seen in api.watched(PODS, _bound, fields="spec.nodeName!="):
                names = seen.items if isinstance(seen, Listed) else ()
                names = (seen.item,) if isinstance(seen, Changed) else names
                for name in names:
                    bound.setdefault(name, time.perf_counter())
                if len(bound) >= size.pods:
                    break
    return list(bound.values())


def _bound(data: bytes) -> str:
    assert pod_from_json(data).host
    return head_of(data).name


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
