"""One run: pods arrive one by one, each is placed at once or refused for ever, none leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from numalign.core.fleet.board import UNFIT, Board, first_best
from numalign.core.fleet.gpu_sharing.fragments import Fragments, typical_pods
from numalign.core.fleet.gpu_sharing.hosts import (
    GPU_MILLI,
    HostShape,
    SharedHost,
    SharedPod,
    whole,
)
from numalign.core.fleet.gpu_sharing.policies import POLICIES, RANDOM

BINS: Final = range(131)  # arrived per cent, rounded

Chance = Callable[[int], int]  # a number below the bound


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet after one arrival."""

    arrived_percent: float
    allocated_percent: float
    fragment_milli: float


@dataclass(slots=True)
class Run:
    """What came of a run."""

    samples: list[Sample]
    hosts: list[SharedHost]
    refused: int = 0
    gpu_milli_used: int = 0


def run(
    shapes: Sequence[HostShape],
    pods: Sequence[SharedPod],
    order: Sequence[int],
    ranks: Sequence[int],
    policy: str,
    chance: Chance,
) -> Run:
    """Places ``pods`` (sorted by name) in this order; ``chance`` decides for Random alone."""
    fleet = _Fleet(shapes, pods, ranks, policy, chance)
    capacity = sum(shape.gpus for shape in shapes) * GPU_MILLI
    found = Run([], fleet.hosts)
    arrived = 0
    for number in order:
        pod = pods[number]
        arrived += pod.demand
        if fleet.place(pod):
            found.gpu_milli_used += pod.demand
        else:
            found.refused += 1
        found.samples.append(
            Sample(
                # Divided in two steps, as the original does: samples on the border of two bins
                # then fall on the same side.
                arrived / (capacity // GPU_MILLI) / 10,
                round(100 * found.gpu_milli_used / capacity, 2),
                round(fleet.fragment, 2),
            )
        )
    return found


class _Fleet:
    """All hosts of a run, in the order that decides between equals."""

    def __init__(
        self,
        shapes: Sequence[HostShape],
        pods: Sequence[SharedPod],
        ranks: Sequence[int],
        policy: str,
        chance: Chance,
    ) -> None:
        ordered = [shape for _, shape in sorted(zip(ranks, shapes, strict=True))]
        self.hosts = [SharedHost.idle(shape) for shape in ordered]
        self._memory_left = np.array([shape.memory_mib for shape in ordered], np.int64)
        self._board = Board(self.hosts)
        self._fragments = Fragments(typical_pods(pods))
        self._chance = chance
        self._policy = None if policy == RANDOM else POLICIES[policy]
        self.fragment = sum(self._fragment_of(host) for host in self.hosts)

    def _fragment_of(self, host: SharedHost) -> float:
        return self._fragments.of(host.cpu_left, host.gpu_left, host.shape.model)

    def place(self, pod: SharedPod) -> bool:
        chosen = self._chosen(pod)
        if chosen is None:
            return False
        host = self.hosts[chosen]
        self.fragment -= self._fragment_of(host)
        host.take(pod, self._gpus(host, pod))
        self.fragment += self._fragment_of(host)
        self._memory_left[chosen] -= pod.memory_mib
        self._board.changed(chosen)
        return True

    def _chosen(self, pod: SharedPod) -> int | None:
        # Memory is the one thing that no score looks at, so pods that differ in it share scores.
        key = (pod.cpu_milli, pod.gpus, pod.gpu_milli, pod.models)
        scores = self._board.scores(key, lambda host: self._score(host, pod))
        scores = np.where(self._memory_left >= pod.memory_mib, scores, UNFIT)
        if self._policy is not None:
            return first_best(scores)
        fitting = np.flatnonzero(scores > UNFIT)
        return int(fitting[self._chance(len(fitting))]) if len(fitting) else None

    def _score(self, host: SharedHost, pod: SharedPod) -> int:
        if not host.fits(pod):
            return UNFIT
        return 0 if self._policy is None else self._policy.score(host, pod, self._fragments)

    def _gpus(self, host: SharedHost, pod: SharedPod) -> list[int]:
        if not pod.is_shared:
            return whole(host, pod.gpus)
        if self._policy is not None:
            return [self._policy.pick(host, pod, self._fragments)]
        fitting = [gpu for gpu, left in enumerate(host.gpu_left) if left >= pod.gpu_milli]
        return [fitting[self._chance(len(fitting))]]


def binned(samples: Iterable[Sample], capacity: int) -> list[tuple[float, float]]:
    """Allocated and fragmented per cent of all GPUs by arrived per cent, 0 to 130.

    An empty bin has the mean of the samples of its neighbours.
    """
    bins: list[list[Sample]] = [[] for _ in range(BINS.stop + 1)]
    for sample in samples:
        bins[min(round(sample.arrived_percent), BINS.stop)].append(sample)
    found: list[tuple[float, float]] = []
    for i in BINS:
        inside = bins[i] or [*(bins[i - 1] if i else ()), *bins[i + 1]]
        count = len(inside)
        if not count:
            found.append((float("nan"), float("nan")))
            continue
        allocated = sum(s.allocated_percent for s in inside) / count
        fragment = sum(s.fragment_milli for s in inside) / count
        found.append((round(allocated, 2), round(100 * fragment / capacity, 2)))
    return found
