"""Six ways to choose a host and a GPU. Scores are whole numbers: equal ones are many, on purpose.

Each policy scores hosts that fit, 0 to 100, higher is better, and picks the GPUs on the host that
was chosen. CPU and GPU are set against 128 CPUs and 8 GPUs on hosts of every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.fleet.gpu_sharing.fragments import Fragments
from numalign.core.fleet.gpu_sharing.hosts import (
    GPU_MILLI,
    SharedHost,
    SharedPod,
    tightest,
    whole,
)

_CPU_SCALE: Final = 128_000
_GPU_SCALE: Final = 8_000

Score = Callable[[SharedHost, SharedPod, Fragments], int]
Pick = Callable[[SharedHost, SharedPod, Fragments], int]  # one GPU for a pod that shares it


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    score: Score
    pick: Pick


def dot_product(host: SharedHost, pod: SharedPod, _: Fragments) -> int:
    """Hosts with little left of what the pod asks for."""
    cpu = (host.cpu_left / _CPU_SCALE) * (pod.cpu_milli / _CPU_SCALE)
    gpu = (sum(host.gpu_left) / _GPU_SCALE) * (pod.demand / _GPU_SCALE)
    return int(100 * (1 - (cpu + gpu) / 2))


def gpu_clustering(host: SharedHost, pod: SharedPod, _: Fragments) -> int:
    """Pods of one kind together: the kinds are shared GPUs and numbers of whole ones."""
    if not pod.gpus:
        return 0
    base = 25 * (_GPU_SCALE - sum(host.gpu_left)) // _GPU_SCALE
    if not host.tags:
        return 25 + base
    if pod.tag not in host.tags:
        return base
    return (75 if len(host.tags) == 1 else 50) + base


def gpu_packing(host: SharedHost, pod: SharedPod, _: Fragments) -> int:
    """GPUs in use before free GPUs, and those before idle hosts."""
    if not pod.gpus:
        return 0
    free = sum(left == GPU_MILLI for left in host.gpu_left)
    if free == len(host.gpu_left):
        return max(33 - free, free)
    used = [host.gpu_left[gpu] for gpu in tightest(host, pod, pod.gpus)]
    broken = sum(left == GPU_MILLI for left in used)
    if broken:
        return max(50 - broken, 33)
    return max(100 - sum(left * 100 // GPU_MILLI for left in used) // 10, 50)


def best_fit(host: SharedHost, pod: SharedPod, _: Fragments) -> int:
    """Hosts that have the least left afterwards."""
    cpu = 0.5 * (host.cpu_left - pod.cpu_milli) / _CPU_SCALE
    gpu = 0.5 * (sum(host.gpu_left) - pod.demand) / _GPU_SCALE
    return int(100 * (1 - (cpu + gpu)))


def least_fragments(host: SharedHost, pod: SharedPod, fragments: Fragments) -> int:
    """Hosts whose fragments grow least: FGD."""
    if pod.is_shared:
        return _best_gpu(host, pod, fragments)[0]
    left = list(host.gpu_left)
    for gpu in whole(host, pod.gpus):
        left[gpu] = 0
    before = fragments.of(host.cpu_left, host.gpu_left, host.shape.model)
    after = fragments.of(host.cpu_left - pod.cpu_milli, left, host.shape.model)
    return _as_score(before - after)


def _best_gpu(host: SharedHost, pod: SharedPod, fragments: Fragments) -> tuple[int, int]:
    """The best score of a GPU that fits, and the first GPU that has it."""
    model, cpu = host.shape.model, host.cpu_left - pod.cpu_milli
    before = fragments.of(host.cpu_left, host.gpu_left, model)
    best = (-1, -1)
    tried: set[int] = set()
    for gpu, left in enumerate(host.gpu_left):
        if left < pod.gpu_milli or left in tried:
            continue
        tried.add(left)  # GPUs with the same rest give the same score
        rest = list(host.gpu_left)
        rest[gpu] -= pod.gpu_milli
        score = _as_score(before - fragments.of(cpu, rest, model))
        if score > best[0]:
            best = (score, gpu)
    return best


def _as_score(gain: float) -> int:
    return int(100 / (1 + math.exp(-gain / 1000)))


def _pick_tightest(host: SharedHost, pod: SharedPod, _: Fragments) -> int:
    return tightest(host, pod, 1)[0]


def _pick_least_fragments(host: SharedHost, pod: SharedPod, fragments: Fragments) -> int:
    return _best_gpu(host, pod, fragments)[1]


RANDOM: Final = "Random"  # has no score: chance is an argument of the run
POLICIES: Final[Mapping[str, SharingPolicy]] = {
    "DotProd": SharingPolicy(dot_product, _pick_tightest),
    "GpuClustering": SharingPolicy(gpu_clustering, _pick_tightest),
    "GpuPacking": SharingPolicy(gpu_packing, _pick_tightest),
    "BestFit": SharingPolicy(best_fit, _pick_tightest),
    "FGD": SharingPolicy(least_fragments, _pick_least_fragments),
}
NAMES: Final = (RANDOM, *POLICIES)
