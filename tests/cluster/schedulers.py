"""Our scheduler as a process, and the stock one with it, for tests on the real API server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from tests.real.control_plane import ControlPlane, free_ports

READY_SECONDS_MAX = 60.0
REQUESTS_PER_SECOND = 1000


def stock_config(requests_per_second: int = REQUESTS_PER_SECOND) -> str:
    """The configuration of a stock scheduler; the control plane puts its kubeconfig in."""
    rate = f"qps: {requests_per_second}, burst: {requests_per_second}"
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f'clientConnection: {{kubeconfig: "{{kubeconfig}}", {rate}}}\n'
        "leaderElection: {leaderElect: false}\n"
        "profiles: [{schedulerName: default-scheduler}]\n"
    )


def with_extender(
    address: str,
    verbs: tuple[str, ...] = ("filter", "prioritize", "bind"),
    *,
    requests_per_second: int = REQUESTS_PER_SECOND,
) -> str:
    """The configuration of a stock scheduler that asks our extender."""
    listed = "\n".join(f"  {verb}Verb: {verb}" for verb in verbs)
    return (
        f"{stock_config(requests_per_second)}extenders:\n"
        f"- urlPrefix: {address}/scheduler\n{listed}\n"
        "  weight: 5\n  httpTimeout: 10s\n  nodeCacheCapable: true\n"
    )


class Scheduler:
    """A running ``numalign scheduler``."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self.log = log

    def is_ready(self) -> bool:
        """Whether it says that it knows the cluster."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.address}/readyz", timeout=2).status_code == 200
        return False

    def metric(self, name: str) -> float:
        """One of its metrics, by its name with labels."""
        for line in httpx.get(f"{self.address}/metrics", timeout=5).text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def kill(self) -> None:
        """Ends it without a chance to clean up."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@contextlib.contextmanager
def scheduler(
    plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None, name: str = "scheduler"
) -> Iterator[Scheduler]:
    """Our scheduler until the end of the block; ready at its beginning."""
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "numalign", "scheduler", *arguments, "--listen", listen]
    command += ["--kubeconfig", str(kubeconfig or plane.kubeconfig)]
    log = plane.place / f"{name}-{port}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    found = Scheduler(process, f"http://{listen}", log)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not found.is_ready():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(15)
