"""How much of the idle GPUs of a host a typical pod could not use: the fragment measure of FGD.

A class of pods asks for CPU, a part of GPUs, and perhaps for a model. What a host has left is a
fragment to a class if the host would not take such a pod at all; if it would, only what is left on
GPUs that are too full for it. The mean over the classes, by how often they occur, is the measure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from numalign.core.fleet.gpu_sharing.hosts import SharedPod

COVERED_SHARE: Final = 0.95  # of all pods, by the most frequent classes
_KEPT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TypicalPod:
    cpu_milli: int
    gpu_milli: int
    gpus: int
    models: str
    share: float


def typical_pods(pods: Sequence[SharedPod]) -> tuple[TypicalPod, ...]:
    """The most frequent classes that together make 95 % of all pods; memory is not counted."""
    counts = Counter((p.cpu_milli, p.gpu_milli, p.gpus, p.models) for p in pods)
    ordered = sorted(counts.items(), key=lambda found: (found[1], found[0]), reverse=True)
    taken: list[tuple[tuple[int, int, int, str], int]] = []
    covered = 0
    for key, count in ordered:
        if covered >= COVERED_SHARE * len(pods):
            break
        taken.append((key, count))
        covered += count
    # Divided twice, as in the original: see Fragments.
    of_all = covered / len(pods)
    return tuple(TypicalPod(*key, count / len(pods) / of_all) for key, count in taken)


class Fragments:
    """The measure for one mix of pods; equal hosts are computed once."""

    def __init__(self, mix: Iterable[TypicalPod]) -> None:
        self._mix = tuple(mix)
        # How much CPU is left matters only through the classes for which it is enough.
        self._steps = sorted({m.cpu_milli for m in self._mix})
        self._models: dict[str, list[tuple[float, int, int, int, bool]]] = {}
        self._kept: dict[tuple[int, str, tuple[int, ...]], float] = {}

    def of(self, cpu_left: int, gpu_left: Iterable[int], model: str) -> float:
        """The expected fragment of a host, in thousandths of a GPU."""
        key = (bisect_right(self._steps, cpu_left), model, tuple(sorted(gpu_left)))
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            found = self._kept[key] = self._computed(cpu_left, key[2], model)
        return found

    def _computed(self, cpu_left: int, ordered: tuple[int, ...], model: str) -> float:
        # Six sums, added up at the end in the order of the original. Where two placements are
        # equally good the last bits of these sums decide whether a score is 49 or 50.
        total = sum(ordered)
        count = len(ordered)
        lacks_both = lacks_gpu = lacks_cpu = no_gpu = no_gpu_lacks_cpu = no_access = 0.0
        for share, cpu, gpu_milli, gpus, has_access in self._classes(model):
            has_cpu = cpu_left >= cpu
            if not gpu_milli:
                if has_cpu:
                    no_gpu += share * total
                else:
                    no_gpu_lacks_cpu += share * total
                continue
            if not has_access:
                no_access += share * total
                continue
            first = useless = 0
            while first < count and ordered[first] < gpu_milli:
                useless += ordered[first]
                first += 1
            if count - first >= gpus:
                if has_cpu:
                    lacks_gpu += share * useless
                else:
                    lacks_cpu += share * total
            elif has_cpu:
                lacks_gpu += share * total
            else:
                lacks_both += share * total
        return lacks_both + lacks_gpu + lacks_cpu + no_gpu + no_gpu_lacks_cpu + no_access

    def _classes(self, model: str) -> list[tuple[float, int, int, int, bool]]:
        if model not in self._models:
            self._models[model] = [
                (
                    m.share,
                    m.cpu_milli,
                    m.gpu_milli,
                    m.gpus,
                    not m.models or model in m.models.split("|"),
                )
                for m in self._mix
            ]
        return self._models[model]
