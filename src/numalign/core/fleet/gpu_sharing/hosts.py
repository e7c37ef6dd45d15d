"""Pods that ask for thousandths of GPUs, and hosts that hand them out.

A pod takes CPU, memory, and on ``gpus`` distinct GPUs of one host ``gpu_milli`` each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

GPU_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class SharedPod:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int  # of each GPU; 0 without any
    models: str = ""  # the models it accepts, joined by |; empty: all

    @property
    def demand(self) -> int:
        """All that it takes of GPUs."""
        return self.gpus * self.gpu_milli

    @property
    def is_shared(self) -> bool:
        return 0 < self.gpu_milli < GPU_MILLI

    @property
    def tag(self) -> int:
        """What kind of GPU pod it is: a part of one (0) or so many whole ones."""
        return 0 if self.is_shared else self.gpus


@dataclass(frozen=True, slots=True)
class HostShape:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str = ""


@dataclass(slots=True)
class SharedHost:
    """One host as it is now. Owned and changed by one run."""

    shape: HostShape
    cpu_left: int
    gpu_left: list[int]
    tags: set[int] = field(default_factory=set)  # of the GPU pods that are here

    @classmethod
    def idle(cls, shape: HostShape) -> SharedHost:
        return cls(shape, shape.cpu_milli, [GPU_MILLI] * shape.gpus)

    def fits(self, pod: SharedPod) -> bool:
        """Whether it has room, but for memory."""
        if self.cpu_left < pod.cpu_milli:
            return False
        if not pod.gpus:
            return True
        if pod.models and self.shape.model not in pod.models.split("|"):
            return False
        wanted = pod.gpu_milli
        return sum(left >= wanted for left in self.gpu_left) >= pod.gpus

    def take(self, pod: SharedPod, gpus: list[int]) -> None:
        """Gives a pod its CPU and its part of these GPUs."""
        self.cpu_left -= pod.cpu_milli
        assert self.cpu_left >= 0, f"{self.shape.name} gives away CPU that it does not have"
        for gpu in gpus:
            self.gpu_left[gpu] -= pod.gpu_milli
            assert self.gpu_left[gpu] >= 0, f"GPU {gpu} of {self.shape.name} is given twice"
        if pod.gpus:
            self.tags.add(pod.tag)


def tightest(host: SharedHost, pod: SharedPod, count: int) -> list[int]:
    """The fitting GPUs with the least left, the lowest number first among equals."""
    left = host.gpu_left
    fitting = [gpu for gpu in range(len(left)) if left[gpu] >= pod.gpu_milli]
    fitting.sort(key=left.__getitem__)
    return fitting[:count]


def whole(host: SharedHost, count: int) -> list[int]:
    """The first GPUs that nobody uses."""
    free = [gpu for gpu, left in enumerate(host.gpu_left) if left == GPU_MILLI]
    return free[:count]
