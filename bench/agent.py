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
from typing import Self

import httpx

MACHINE = "epyc-2s-nps4"  # decisions for a large machine, whatever this host is
STANDING = 100  # pods that are there while others come and go
STANDING_AT_START = 500
STANDING_PROCESSES = 20
RUN_SECONDS_MAX = 0.3


class Measured:
    """An agent with its state on disk: it decides for an example machine, or runs processes."""

    def __init__(self, *, runs: bool = False) -> None:
        self.arguments = [] if runs else ["--runtime", "none", "--machine", MACHINE]
        self.root = Path(tempfile.mkdtemp(prefix="nb-"))
        self.process: subprocess.Popen[bytes] | None = None
        (self.root / "config.yaml").write_text(
            "apiVersion: numalign.io/v1\nkind: AgentConfiguration\npodsMax: 5000\n"
        )

    def start(self) -> float:
        """Starts it; the seconds until it answers."""
        start = time.perf_counter()
        command = [sys.executable, "-m", "numalign", "agent", "--listen", "", *self.arguments]
        command += ["--state-dir", str(self.root / "s"), "--config", str(self.root / "config.yaml")]
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

    def megabytes(self) -> float:
        """Resident memory."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far; finer than the clock ticks of /proc/PID/stat."""
        assert self.process is not None
        files = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def idle_share(self, seconds: float) -> float:
        """The part of one CPU that it needs while nothing happens."""
        before = self.cpu_seconds()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / seconds

    def stop(self) -> None:
        """Ends it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and removes its files."""
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def _manifest(name: str, cpu: str) -> bytes:
    limits = {"cpu": cpu, "memory": "16Mi"}
    container = {"name": "c", "command": ["sleep", "100000"], "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": name, "uid": name}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    ).encode()


def run(*, seconds: float) -> None:
    """Prints what was measured."""
    print(f"\nThe agent (deciding for {MACHINE}, state files on disk)")
    with Measured() as agent:
        _deciding(agent, seconds)
    print(f"The agent with {STANDING_PROCESSES} pods as processes of this host")
    with Measured(runs=True) as agent:
        _running(agent, seconds)


def _deciding(agent: Measured, seconds: float) -> None:
    start = agent.start()
    print(f"  start, empty                     {start:.2f} s, {agent.cpu_seconds():.2f} s of CPU")
    print(f"  memory, empty                    {agent.megabytes():.0f} MB (target under 90 MB)")
    with agent.client() as client:
        for number in range(STANDING):
            _created(client, f"standing{number}", "100m")
        before = agent.cpu_seconds()
        creates, deletes, wall = _load(client, seconds=5 * seconds)
        busy = (agent.cpu_seconds() - before) / len(creates)
        share = _admission_share(client)
        _show("create", creates)
        _show("delete", deletes)
        print(f"  create and delete, sustained     {len(creates) / wall:.0f} pods/s, one by one")
        print(f"  CPU time of the agent            {busy * 1e3:.1f} ms for both together")
        print(f"  admission itself                 {share:.0%} of the median answer to a create")
        for number in range(STANDING, STANDING_AT_START):
            _created(client, f"standing{number}", "100m")
    print(f"  memory, with {STANDING_AT_START} pods            {agent.megabytes():.0f} MB")
    agent.stop()
    start = agent.start()
    print(
        f"  start with {STANDING_AT_START} pods in the state   {start:.2f} s, "
        f"{agent.cpu_seconds():.2f} s of CPU (target under 2 s)"
    )


def _running(agent: Measured, seconds: float) -> None:
    agent.start()
    with agent.client() as client:
        for number in range(STANDING_PROCESSES):
            _created(client, f"p{number}", "10m")
        time.sleep(2)
        share = agent.idle_share(15 * seconds)
        print(f"  CPU, idle                        {share:.2%} (target under 0.5 %)")
        print(f"  memory                           {agent.megabytes():.0f} MB (target under 90 MB)")
        _foreground(agent)
        for number in range(STANDING_PROCESSES):
            client.delete(f"/pods/p{number}")
        while client.get("/pods").json()["items"]:
            time.sleep(0.05)


def _foreground(agent: Measured) -> None:
    """A whole ``numalign run`` beside a plain start of the same command and of an interpreter."""
    program = str(Path(sys.executable).with_name("numalign"))
    socket_path = str(agent.root / "s" / "agent.sock")
    ours = _whole([program, "run", "--socket", socket_path, "--", "true"])
    plain = _whole(["true"])
    interpreter = _whole([sys.executable, "-c", "pass"])
    print(
        f"  numalign run -- true             {ours * 1e3:.0f} ms at the median, whole process "
        f"(target under {RUN_SECONDS_MAX * 1e3:.0f} ms); true alone {plain * 1e3:.1f} ms, "
        f"a Python that does nothing {interpreter * 1e3:.0f} ms ({ours / interpreter:.0f} x)"
    )


def _whole(command: list[str]) -> float:
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _created(client: httpx.Client, name: str, cpu: str) -> float:
    """The seconds until a pod was admitted."""
    while True:
        start = time.perf_counter()
        answer = client.post("/pods", content=_manifest(name, cpu))
        if answer.status_code != 429:  # more than the API allows in a second
            assert answer.status_code == 201, answer.text
            return time.perf_counter() - start
        time.sleep(0.2)


def _load(client: httpx.Client, *, seconds: float) -> tuple[list[float], list[float], float]:
    """Creates and deletes pods for a while, every other one with a CPU of its own."""
    creates, deletes = [], []
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        name = f"load{len(creates)}"
        creates.append(_created(client, name, "1" if len(creates) % 2 else "100m"))
        start = time.perf_counter()
        answer = client.delete(f"/pods/{name}")
        deletes.append(time.perf_counter() - start)
        assert answer.status_code in {200, 202}, answer.text
    return creates, deletes, time.perf_counter() - begin


def _admission_share(client: httpx.Client) -> float:
    """The part of the answer to a create that is the decision, by the agent's own clock."""
    times, seconds = [], []
    for number in range(50):
        times.append(_created(client, f"share{number}", "1" if number % 2 else "100m"))
        client.delete(f"/pods/share{number}")
    for decision in client.get("/decisions?limit=50&trace=false").json()["items"]:
        seconds.append(decision["seconds"])
    return statistics.median(seconds) / statistics.median(times)


def _show(name: str, seconds: list[float]) -> None:
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    print(f"  {name:<32} p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms ({len(seconds)} answers)")


if __name__ == "__main__":
    run(seconds=4.0 if "--long" in sys.argv else 1.0)
