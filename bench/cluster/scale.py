"""``python -m bench.cluster.scale``: 5,000 hosts, a burst of as many pods, churn, and a restart.

The hosts are Node and NodeResourceTopology objects on the real API server. Nobody publishes anew,
which is the hardest case for us: everything that was placed stays on its way. With ``--played`` our
core decides on every host as its kubelet would, and publishes, in one more process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import httpx
from tests.real.control_plane import ControlPlane
from tests.real.kept import MissingError

from bench.cluster.__main__ import MODES
from bench.cluster.played import playing
from bench.cluster.runs import (
    OURS,
    Mode,
    Size,
    bound_times,
    burst,
    cpu_seconds,
    filled_plane,
    make_pod,
    many,
    memory_mb,
    ours,
    pod_name,
)
from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.wire.kubernetes.api import PODS

CATCH_UP_SECONDS_MAX = 300.0


def run(mode: Mode, size: Size, churn: int, *, is_played: bool) -> None:
    """One cluster, and what is asked of it one after the other."""
    print(f"\n{mode.name}: {size.pods} pods over {size.hosts} hosts; load {os.getloadavg()[0]:.1f}")
    began = time.monotonic()
    with filled_plane(mode, size) as plane:
        print(f"  filled in {time.monotonic() - began:.0f} s", flush=True)
        with playing(plane.kubeconfig, size) if is_played else contextlib.nullcontext() as hosts:
            _asked_of(plane, mode, size, churn, hosts)


def _asked_of(plane: ControlPlane, mode: Mode, size: Size, churn: int, hosts: int | None) -> None:
    began = time.monotonic()
    with ours(plane, mode) as (process, port):
        print(f"  ready {time.monotonic() - began:.1f} s after its start", flush=True)
        before = 0.0 if hosts is None else cpu_seconds(hosts)
        found = burst(plane, mode, size, process.pid, port)
        used = ", ".join(f"{program} {ms:.2f}" for program, ms in found.cpu_ms.items())
        if hosts is not None:
            used += f", the hosts {1000 * (cpu_seconds(hosts) - before) / size.pods:.2f}"
        print(f"  burst: {found.per_second:.0f} pods/s, {found.left} left")
        print(f"    ms of CPU per pod: {used}")
        print("    MB: " + ", ".join(f"{p} {mb:.0f}" for p, mb in found.memory_mb.items()))
        asyncio.run(_churned(plane, mode, size, churn, process))
    _restarted(plane, mode)


async def _churned(
    plane: ControlPlane, mode: Mode, size: Size, churn: int, process: subprocess.Popen[bytes]
) -> None:
    """Pods go while others come."""
    before, began = cpu_seconds(process.pid), time.perf_counter()

    async with ApiServer.connect(plane.kubeconfig) as api:

        async def replace(number: int) -> None:
            await api.delete(PODS, pod_name(number), "default", grace_seconds=0)
            await make_pod(api, size.pods + number, mode)

        await many(range(churn), replace)
        await bound_times(api, Size(size.hosts, size.pods, size.seconds_max))
    seconds = time.perf_counter() - began
    own = 1000 * (cpu_seconds(process.pid) - before) / churn
    print(
        f"  churn: {churn} deleted and made, all bound after {seconds:.1f} s "
        f"({churn / seconds:.0f}/s)"
    )
    print(f"    {OURS} {own:.2f} ms of CPU for each, {memory_mb(process.pid):.0f} MB", flush=True)


def _restarted(plane: ControlPlane, mode: Mode) -> None:
    began = time.monotonic()
    with ours(plane, mode, is_waiting=False) as (process, port):
        ready = time.monotonic() - began
        while mode.waits_for_lease and time.monotonic() < began + CATCH_UP_SECONDS_MAX:
            if (
                "numalign_scheduler_leading 1.0"
                in httpx.get(f"http://127.0.0.1:{port}/metrics").text
            ):
                break
            time.sleep(0.1)
        print(
            f"  restart: knows the cluster after {ready:.1f} s, acts after "
            f"{time.monotonic() - began:.1f} s; {cpu_seconds(process.pid):.1f} s of CPU, "
            f"{memory_mb(process.pid):.0f} MB",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.scale", description=__doc__)
    names = [mode.name for mode in MODES if mode.arguments]
    parser.add_argument("rows", nargs="*", default=["pre-place"], help=f"of {', '.join(names)}")
    parser.add_argument("--hosts", type=int, default=5_000, help="(5000)")
    parser.add_argument("--pods", type=int, default=5_000, help="(5000)")
    parser.add_argument("--churn", type=int, default=1_000, help="(1000)")
    parser.add_argument("--seconds", type=float, default=600.0, help="at most (600)")
    parser.add_argument("--played", action="store_true", help="hosts admit pods and publish")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in names]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected rows of {', '.join(names)}")
    try:
        for mode in MODES:
            if mode.name in options.rows:
                size = Size(options.hosts, options.pods, options.seconds)
                run(mode, size, options.churn, is_played=options.played)
    except MissingError as missing:
        print(f"  not measured: {missing}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
