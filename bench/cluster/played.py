"""Hosts that are played: each decides as its kubelet would, by our core, and publishes.

``python -m bench.cluster.played KUBECONFIG HOSTS`` says "ready" once all have published, and at the
end of its input how many pods were admitted and refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.fleet import Fleet, HostPlan

from bench.cluster.runs import SHAPE, Size, host_name
from numalign.adapters.kubernetes.api_server import ApiServer

READY = "ready"


@contextlib.contextmanager
def playing(kubeconfig: Path, size: Size) -> Iterator[int]:
    """All hosts, in a process of their own; its id."""
    command = [sys.executable, "-m", "bench.cluster.played", str(kubeconfig), str(size.hosts)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != READY:
            raise RuntimeError("the hosts did not start")
        yield process.pid
        process.stdin.close()
        print(f"  hosts: {process.stdout.readline().strip()}", flush=True)
    finally:
        process.kill()
        process.wait()


async def play(kubeconfig: Path, hosts: int) -> None:
    plans = [HostPlan(host_name(number), SHAPE) for number in range(hosts)]
    async with ApiServer.connect(kubeconfig) as api, Fleet(api, plans) as fleet:
        print(READY, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await fleet.settled()
        refused = {reason: count for reason, count in fleet.reasons.items() if reason}
        found = {"admitted": fleet.reasons[""], "refused": refused, "errors": len(fleet.errors)}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), int(sys.argv[2])))
