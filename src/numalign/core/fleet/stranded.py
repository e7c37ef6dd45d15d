"""What is idle on a NUMA node where nobody can use it, in numbers and in one sentence.

A node whose CPUs are all given away may still have memory and devices, and the other way round. A
pod that must sit on one NUMA node cannot have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.host import HostState
from numalign.core.pod import is_memory_type
from numalign.core.values.sizes import counted, human

MEMORY: Final = "memory"
CPU: Final = "cpu"
# A node without CPUs almost always has a little memory left: that is no reason to look at it.
MEMORY_SHARE_MIN: Final = 16
MEMORY_LACKING_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Stranded:
    """What one node has idle, and of what it has nothing left."""

    node: int
    idle: Mapping[str, int]  # whole CPUs, bytes, devices
    missing: tuple[str, ...]  # empty: no reference shape fits beside it
    by_shapes: bool = False

    @property
    def text(self) -> str:
        """The same in one sentence."""
        parts = [amount(name, found) for name, found in self.idle.items()]
        is_one = len(parts) == 1 and parts[0].startswith("1 ")
        verb = "is" if is_one else "are"
        if self.by_shapes:
            return f"{_joined(parts)} {verb} idle where no reference shape fits"
        lacking = [_nothing_of(name) for name in self.missing]
        return f"{_joined(parts)} {verb} idle beside {_joined(lacking)}"


def stranded_on(frame: Frame, state: HostState) -> list[Stranded]:
    """The nodes that have something idle but no CPUs, or no memory, left to give with it."""
    most = free_by_node(frame, frame.empty)
    return [
        Stranded(node, idle, missing)
        for node, free in sorted(free_by_node(frame, state).items())
        if (missing := _missing(free, most[node])) and (idle := _idle(free, most[node], missing))
    ]


def unused_by_shapes(frame: Frame, state: HostState, mix: Mix) -> list[Stranded]:
    """The nodes with something idle for which some shape asks, where none of these could sit."""
    rooms = Rooms(frame)
    asks = [own for one in mix if (own := rooms.ask(one.pod).of_node) is not None]
    wanted = {name for own in asks for name in own}
    found = []
    for node, free in sorted(free_by_node(frame, state).items()):
        amounts = {name: nanos // NANOS for name, nanos in free.items()}
        if any(all(amounts.get(n, 0) >= a for n, a in own.items()) for own in asks):
            continue
        idle = {name: a for name, a in _ordered(amounts).items() if a and name in wanted}
        if idle:
            found.append(Stranded(node, idle, (), by_shapes=True))
    return found


def _missing(free: Mapping[str, int], most: Mapping[str, int]) -> tuple[str, ...]:
    least = {CPU: NANOS, MEMORY: MEMORY_LACKING_BYTES * NANOS}
    return tuple(
        name
        for name, enough in least.items()
        if most.get(name, 0) >= enough and free.get(name, 0) < enough
    )


def _idle(
    free: Mapping[str, int], most: Mapping[str, int], missing: tuple[str, ...]
) -> dict[str, int]:
    found = {}
    for name, nanos in _ordered(free).items():
        is_little = name == MEMORY and nanos * MEMORY_SHARE_MIN < most.get(name, 0)
        if nanos >= NANOS and name not in missing and not is_little:
            found[name] = nanos // NANOS
    return found


def _ordered(amounts: Mapping[str, int]) -> dict[str, int]:
    """CPUs, memory, huge pages, then devices."""
    return {
        name: amounts[name]
        for name in sorted(amounts, key=lambda n: (n != CPU, n != MEMORY, not is_memory_type(n), n))
    }


def amount(name: str, number: int) -> str:
    """An amount with its noun: ``12 GiB``, ``3 CPUs``, ``1 nvidia.com/gpu``."""
    if name == CPU:
        return counted(number, "CPU")
    if name == MEMORY:
        return human(number)
    if is_memory_type(name):
        return f"{human(number)} of {name}"
    return f"{number} {name}"


def _nothing_of(name: str) -> str:
    return "0 free CPUs" if name == CPU else "no free memory"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
