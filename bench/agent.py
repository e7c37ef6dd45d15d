"""The agent as a process: how fast it answers, what it costs, how long it takes to start."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

MACHINE = "epyc-2s-nps4"  # decisions for a large machine, whatever this host is


class Measured:
    """An agent that decides for an example machine and runs nothing, with its state on disk."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="nb-"))
        self.process: subprocess.Popen[bytes] | None = None
        (self.root / "config.yaml").write_text(
            "apiVersion: numalign.io/v1\nkind: AgentConfiguration\npodsMax: 5000\n"
        )

    def start(self) -> float:
        """Starts it; the seconds until it answers."""
        start = time.perf_counter()
        command = [sys.executable, "-m", "numalign", "agent", "--runtime", "none", "--listen", ""]
        command += ["--machine", MACHINE, "--state-dir", str(self.root / "s")]
        command += ["--config", str(self.root / "config.yaml")]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while not self._listens():
            if self.process.poll() is not None:
                raise RuntimeError((self.root / "log").read_text())
            time.sleep(0.01)
        return time.perf_counter() - start

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.root / "s" / "agent.sock"))
            except OSError:
                return False
        return True

    def client(self) -> httpx.Client:
        """A client of its unix socket."""
        transport = httpx.HTTPTransport(uds=str(self.root / "s" / "agent.sock"))
        return httpx.Client(transport=transport, base_url="http://agent", timeout=30)

    def stat(self) -> tuple[float, float]:
        """Resident megabytes, and CPU seconds used so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        pages = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        return pages / 1e6, (int(fields[11]) + int(fields[12])) / ticks

    def stop(self) -> None:
        """Ends it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def close(self) -> None:
        """Ends it and removes its files."""
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def _manifest(number: int, cpu: str) -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": "64Mi"}
    container = {"name": "c", "command": ["sleep", "1"], "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def run(*, seconds: float) -> None:
    """Prints what was measured."""
    agent = Measured()
    try:
        _measure(agent, seconds)
    finally:
        agent.close()


def _measure(agent: Measured, seconds: float) -> None:
    print(f"\nThe agent (deciding for {MACHINE}, state files on disk)")
    print(f"  start, empty                     {agent.start():.2f} s")
    megabytes, before = agent.stat()
    time.sleep(5 * seconds)
    _, after = agent.stat()
    print(f"  memory, empty                    {megabytes:.0f} MB (target under 90 MB)")
    share = (after - before) / (5 * seconds)
    print(f"  CPU, idle                        {share:.2%} (target under 0.5 %)")
    with agent.client() as client:
        creates = _load(client, seconds=5 * seconds)
        print(
            f"  create                           p50 {statistics.median(creates) * 1e3:.1f} ms, "
            f"p99 {statistics.quantiles(creates, n=100)[98] * 1e3:.1f} ms, "
            f"{len(creates) / sum(creates):.0f} pods/s one after the other"
        )
        for number in range(500):
            client.post("/pods", content=json.dumps(_manifest(10**6 + number, "100m")))
    megabytes, _ = agent.stat()
    print(f"  memory, with the pods of the load and 500 more   {megabytes:.0f} MB")
    agent.stop()
    print(f"  start with these pods in the state {agent.start():.2f} s (target under 2 s)")


def _load(client: httpx.Client, *, seconds: float) -> list[float]:
    """Creates pods for a while, every other one with a CPU of its own."""
    times = []
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end and number < 200:
        number += 1
        content = json.dumps(_manifest(number, "1" if number % 2 else "100m"))
        start = time.perf_counter()
        answer = client.post("/pods", content=content)
        times.append(time.perf_counter() - start)
        assert answer.status_code == 201, answer.text
    return times


if __name__ == "__main__":
    run(seconds=1.0)
