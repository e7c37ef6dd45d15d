"""Work from a generator: pods of a few kinds that arrive evenly and stay for a while.

Each preset is a small table of what such fleets run, chosen by us and no measurement. How long pods
stay follows from the load that is asked for, so that the fleet settles there.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numalign.wire.fleet.traces.work import ListedPod, PodClasses

GPU: Final = "nvidia.com/gpu"
VF: Final = "intel.com/sriov_vf"
_GI: Final = 1 << 30
PODS_DEFAULT: Final = 2_000


@dataclass(frozen=True, slots=True)
class PodKind:
    """One kind of pod; ``stay`` is how long it runs beside the others."""

    name: str
    weight: int
    cpus: int
    memory_gi: int
    stay: float = 1.0
    others: tuple[tuple[str, int], ...] = ()


def _huge(gi: int) -> tuple[str, int]:
    return "hugepages-1Gi", gi * _GI


PRESETS: Final[Mapping[str, tuple[PodKind, ...]]] = {
    "telco": (
        PodKind("upf", 15, 16, 32, 4.0, (_huge(8), (VF, 2))),
        PodKind("du", 20, 12, 16, 4.0, (_huge(4), (VF, 1))),
        PodKind("cu", 20, 8, 16, 3.0, (_huge(2), (VF, 1))),
        PodKind("smf", 20, 4, 8, 1.0),
        PodKind("amf", 15, 6, 12, 1.0),
        PodKind("probe", 10, 2, 4, 0.3),
    ),
    "gpu-training": (
        PodKind("train-8", 10, 64, 512, 3.0, ((GPU, 4),)),
        PodKind("train-2", 20, 24, 192, 2.0, ((GPU, 2),)),
        PodKind("train-1", 30, 12, 96, 1.0, ((GPU, 1),)),
        PodKind("notebook", 25, 4, 32, 0.5, ((GPU, 1),)),
        PodKind("preprocess", 15, 16, 64, 0.3),
    ),
    "database": (
        PodKind("oltp-large", 15, 24, 192, 6.0),
        PodKind("oltp", 30, 12, 96, 6.0),
        PodKind("cache", 25, 4, 64, 3.0),
        PodKind("analytics", 15, 32, 128, 0.3),
        PodKind("backup", 15, 2, 8, 0.1),
    ),
    "web-mix": (
        PodKind("api", 40, 4, 8, 1.0),
        PodKind("worker", 25, 2, 4, 0.5),
        PodKind("search", 15, 8, 32, 2.0),
        PodKind("ml-serving", 10, 16, 32, 2.0),
        PodKind("batch", 10, 12, 24, 0.2),
    ),
}


def generated(
    preset: str, *, pods: int, hours: float, load: float, fleet_cpus: int, seed: int
) -> list[ListedPod]:
    """Pods of a preset; the same for the same seed."""
    rng = random.Random(f"{preset} {seed}")  # noqa: S311 - a simulation, no secret
    kinds = PRESETS[preset]
    classes = PodClasses()
    weights = [kind.weight for kind in kinds]
    seconds = hours * 3600
    rate = pods / seconds
    # By Little's law the CPUs in use are the rate times the mean of CPUs times stay.
    mean = sum(k.weight * k.cpus * k.stay for k in kinds) / sum(weights)
    unit = load * fleet_cpus / (rate * mean)
    found = []
    at = 0.0
    for number in range(pods):
        at += rng.expovariate(rate)
        kind = rng.choices(kinds, weights)[0]
        amounts = {"cpu": kind.cpus, "memory": kind.memory_gi * _GI, **dict(kind.others)}
        stays = rng.expovariate(1 / (unit * kind.stay))
        name = f"{kind.name}-{number}"
        owner = f"{kind.name}-{rng.randrange(20)}"
        found.append(ListedPod(name, classes.pod(amounts), round(at, 3), round(stays, 3), owner))
    return found
