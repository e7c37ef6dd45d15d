"""The lists of cluster-trace-gpu-v2023 ("openb"): hosts, and pods that share GPUs."""

from __future__ import annotations

from typing import Final

from numalign.core.errors import WireError
from numalign.core.fleet.gpu_sharing.hosts import GPU_MILLI, HostShape, SharedPod
from numalign.wire.fleet.traces.csv_rows import CsvRow, rows
from numalign.wire.fleet.traces.work import ListedPod, PodClasses

_HOST_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_GPUS_MAX: Final = 64


def host_shapes(source: str, text: str) -> list[HostShape]:
    """The hosts, sorted by name."""
    found = [_host(row) for row in rows(source, text, _HOST_COLUMNS)]
    if not found:
        raise WireError(f"{source}: found no host, expected one line for each")
    return sorted(found, key=lambda host: host.name)


def _host(row: CsvRow) -> HostShape:
    gpus = row.number("gpu", default=0)
    if gpus > _GPUS_MAX:
        raise WireError(
            f"{row.source}: line {row.line}: column gpu: found {gpus}, expected 0 to {_GPUS_MAX}"
        )
    cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
    return HostShape(row.text("sn"), cpu, memory, gpus, row.text("model"))


def shared_pods(source: str, text: str) -> list[SharedPod]:
    """The pods, sorted by name, whatever became of them."""
    found = [_pod(row) for row in rows(source, text, _POD_COLUMNS, ["gpu_spec"])]
    if not found:
        raise WireError(f"{source}: found no pod, expected one line for each")
    return sorted(found, key=lambda pod: pod.name)


def _pod(row: CsvRow) -> SharedPod:
    gpus = row.number("num_gpu", default=0)
    milli = row.number("gpu_milli", default=0) if gpus else 0
    if (gpus and not 0 < milli <= GPU_MILLI) or (gpus > 1 and milli != GPU_MILLI):
        raise WireError(
            f"{row.source}: line {row.line}: found {milli} thousandths of {gpus} GPUs, expected "
            f"1 to {GPU_MILLI} of one, or {GPU_MILLI} of several"
        )
    cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
    return SharedPod(row.text("name"), cpu, memory, gpus, milli, row.text("gpu_spec"))


# As work for NUMA hosts. The trace does not say who is to have CPUs of its own: that all are, with
# their CPUs rounded up and a part of a GPU counted as a whole one, is our assumption.

GPU: Final = "nvidia.com/gpu"
_MI: Final = 1 << 20


def numa_pods(source: str, text: str) -> list[ListedPod]:
    """The pods as Guaranteed ones with whole CPUs and whole GPUs, by creation."""
    times = {
        row.text("name"): (row.decimal("creation_time"), row.text("deletion_time").strip())
        for row in rows(source, text, ["name", "creation_time", "deletion_time"])
    }
    classes = PodClasses()
    found = []
    for pod in shared_pods(source, text):
        created, deleted = times[pod.name]
        amounts = {
            "cpu": max(1, -(-pod.cpu_milli // 1000)),
            "memory": max(1, pod.memory_mib) * _MI,
            GPU: pod.gpus,
        }
        seconds = max(0.0, float(deleted) - created) if deleted.isdigit() else None
        found.append(ListedPod(pod.name, classes.pod(amounts), created, seconds, pod.name))
    return sorted(found, key=lambda pod: pod.at)
