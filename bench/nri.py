"""``python -m bench.nri``: the NRI plugin as a process, asked over its socket as a runtime asks."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.adapters.nri.runtime import Runtime

from numalign.adapters.nri.two_copies import COPY_BYTES_MIN
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb

MACHINE: Final = "2s:4n:16c:2t"  # 8 NUMA nodes, 256 CPUs
CONTAINERS: Final = 200
SYNCHRONIZED: Final = 500
ROUNDS: Final = 3  # the last one counts: the first one reads programs from the disk
TARGET_CREATE_MS: Final = 10.0
TARGET_SYNCHRONIZE_MS: Final = 1000.0
TARGET_MEMORY_MB: Final = 80.0


def _pod(number: int, *, is_own: bool) -> pb.PodSandbox:
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    pod = pb.PodSandbox(id=f"s{number}", uid=uid, name=f"p{number}", namespace="default", pid=1)
    pod.linux.cgroup_parent = f"/kubepods/{'' if is_own else 'burstable/'}pod{uid}"
    return pod


def _container(number: int, *, is_own: bool) -> pb.Container:
    one = pb.Container(id=f"c{number:062d}", pod_sandbox_id=f"s{number}", name="c", state=3)
    cpu = one.linux.resources.cpu
    cpu.shares.value = 1024 if is_own else 100
    if is_own:
        cpu.quota.value, cpu.period.value = 100_000, 100_000
        one.linux.resources.memory.limit.value = 64 << 20
    return one


@contextmanager
def _plugin(place: Path | None) -> Iterator[tuple[Runtime, int]]:
    with tempfile.TemporaryDirectory(dir=place) as name, socket.socket(socket.AF_UNIX) as server:
        root = Path(name)
        server.bind(str(root / "nri.sock"))
        server.listen(1)
        server.settimeout(30)
        command = [
            *(sys.executable, "-m", "numalign", "nri", "--socket", str(root / "nri.sock")),
            *("--state-dir", str(root / "s"), "--listen", "", "--machine", MACHINE),
            *("--kubelet-dir", name, "--kubelet-config", str(root / "none.yaml")),
        ]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            runtime = Runtime(server.accept()[0])
            runtime.register()
            runtime.call("Configure", pb.ConfigureRequest())
            yield runtime, process.pid
            runtime.connection.close()
        finally:
            process.kill()
            process.wait()


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _milliseconds(runtime: Runtime, method: str, message: object) -> float:
    began = time.perf_counter()
    answer = runtime.call(method, message)
    assert not answer.code, answer.message
    return (time.perf_counter() - began) * 1000


def _created(place: Path | None) -> tuple[list[float], float, float]:
    """The time of each of many creations, CPU for one in milliseconds, and memory at the end."""
    with _plugin(place) as (runtime, pid):
        runtime.call("Synchronize", pb.SynchronizeRequest())
        before = _cpu_seconds(pid)
        times = []
        for number in range(CONTAINERS):
            is_own = number % 2 == 0
            pod, one = _pod(number, is_own=is_own), _container(number, is_own=is_own)
            one.state = 0
            request = pb.CreateContainerRequest(pod=pod, container=one)
            times.append(_milliseconds(runtime, "CreateContainer", request))
        cpu = (_cpu_seconds(pid) - before) / CONTAINERS * 1000
        return times, cpu, _memory_mb(pid)


def _flushed(place: Path | None) -> list[float]:
    """The time of each of many flushes of this disk alone: what no answer can be faster than."""
    with tempfile.NamedTemporaryFile(dir=place) as file:
        file.write(bytes(2 * COPY_BYTES_MIN))
        os.fsync(file.fileno())
        times = []
        for number in range(CONTAINERS):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * COPY_BYTES_MIN, number % 2 * COPY_BYTES_MIN)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return times


def _shown(times: list[float]) -> str:
    late = statistics.quantiles(times, n=100)[98]
    return f"{statistics.median(times):.1f} ms, 99 % in {late:.1f} ms, all in {max(times):.1f} ms"


def _synchronized() -> tuple[float, float]:
    """The time of a Synchronize in milliseconds, and memory after it."""
    with _plugin(None) as (runtime, pid):
        owned = [number % 4 == 0 for number in range(SYNCHRONIZED)]
        request = pb.SynchronizeRequest(
            pods=[_pod(number, is_own=own) for number, own in enumerate(owned)],
            containers=[_container(number, is_own=own) for number, own in enumerate(owned)],
        )
        return _milliseconds(runtime, "Synchronize", request), _memory_mb(pid)


def run() -> int:
    """Prints the figures; how many miss their target."""
    print(f"\nNRI plugin, {MACHINE}, load {os.getloadavg()[0]:.1f}:")
    missed, most = 0, 0.0
    # An answer waits for the disk: what is ours of it shows where there is none.
    for words, place in (("state on disk", None), ("state in memory", Path("/dev/shm"))):
        if place is not None and not place.is_dir():
            continue
        for _ in range(ROUNDS):
            times, cpu, memory = _created(place)
            print(
                f"  CreateContainer, {CONTAINERS} one by one, {words}: {_shown(times)}, {cpu:.1f} "
                "ms of a CPU each"
            )
        if place is None:
            print(f"  a flush of this disk alone, {CONTAINERS} times: {_shown(_flushed(place))}")
        missed += statistics.quantiles(times, n=100)[98] > TARGET_CREATE_MS
        most = max(most, memory)
    for _ in range(ROUNDS):
        synchronize, memory = _synchronized()
        most = max(most, memory)
        print(f"  Synchronize of {SYNCHRONIZED} that were never placed: {synchronize:.0f} ms")
    print(f"  memory: {most:.0f} MB")
    return missed + (synchronize > TARGET_SYNCHRONIZE_MS) + (most > TARGET_MEMORY_MB)


if __name__ == "__main__":
    sys.exit(run())
