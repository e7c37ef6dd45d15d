"""The instances of cluster-trace-gpu-v2025: recommendation models, GPU-disaggregated.

Requests are limits and whole CPUs, so these pods are exactly what the managers care for. An RDMA
share is taken in quarters of a card: the trace has 1, 10, 25, 50, 51, 75 and 100 per cent.
"""

from __future__ import annotations

from typing import Final

from numalign.core.errors import WireError
from numalign.wire.fleet.traces.csv_rows import CsvRow, rows
from numalign.wire.fleet.traces.work import ListedPod, PodClasses

GPU: Final = "nvidia.com/gpu"
RDMA: Final = "example.com/rdma-quarter"
RDMA_QUARTER: Final = 25
_GI: Final = 1 << 30
_COLUMNS: Final = (
    *("instance_sn", "app_name", "cpu_request", "gpu_request", "rdma_request"),
    *("memory_request", "max_instance_per_node", "creation_time", "deletion_time"),
)


def pods(source: str, text: str) -> list[ListedPod]:
    """The instances by creation; those that were there before the trace come first, at 0."""
    classes = PodClasses()
    found = [_pod(row, classes) for row in rows(source, text, _COLUMNS)]
    if not found:
        raise WireError(f"{source}: found no instance, expected one line for each")
    return sorted(found, key=lambda pod: pod.at)


def _pod(row: CsvRow, classes: PodClasses) -> ListedPod:
    created = row.decimal("creation_time") if row.text("creation_time").strip() else 0.0
    seconds = None
    if row.text("deletion_time").strip():
        seconds = row.decimal("deletion_time") - created
        if seconds < 0:
            raise WireError(
                f"{row.source}: line {row.line}: found a deletion before the creation, "
                "expected it after"
            )
    most = row.text("max_instance_per_node").strip()
    share = row.number("rdma_request", default=0)
    pod = classes.pod(
        {
            "cpu": row.number("cpu_request"),
            "memory": round(row.decimal("memory_request") * _GI),
            GPU: row.number("gpu_request", default=0),
            # One per cent is traffic beside the point: such pods do not need a card near them.
            RDMA: -(-share // RDMA_QUARTER) if share > 1 else 0,
        }
    )
    return ListedPod(
        row.text("instance_sn").replace("_", "-"),
        pod,
        created,
        seconds,
        row.text("app_name"),
        0 if most in {"", "-1"} else row.number("max_instance_per_node"),
    )
