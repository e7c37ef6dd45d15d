"""Sets of CPUs and of NUMA nodes, held as one integer each.

The text form is the kernel's list format ("0-3,8"), see cpuset(7). Two types over one
implementation: a set of CPUs never mixes with, nor equals, a set of NUMA nodes. Hot loops
use the plain ``mask`` integers and the functions at the end of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from numalign.core.values.gotext import atoi

# No Linux machine numbers CPUs this high; a larger number in a text is a mistake or an attack
# (one id costs one bit of every mask).
ID_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class _IdSet:
    mask: int = 0

    def __post_init__(self) -> None:
        assert self.mask >= 0, "a negative mask would be an infinite set"

    @classmethod
    def of(cls, ids: Iterable[int]) -> Self:
        return cls(mask_of(ids))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set that a list text such as ``0-3,8`` names.

        Raises ValueError with the kubelet's own words for a text that it refuses too.
        """
        return cls(parse_list(text))

    def __or__(self, other: Self) -> Self:
        return type(self)(self.mask | other.mask)

    def __and__(self, other: Self) -> Self:
        return type(self)(self.mask & other.mask)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.mask & ~other.mask)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, item: int) -> bool:
        return item >= 0 and bool(self.mask >> item & 1)

    def __iter__(self) -> Iterator[int]:
        return bits(self.mask)

    def __str__(self) -> str:
        return format_list(self.mask)

    def issubset(self, other: Self) -> bool:
        return not self.mask & ~other.mask


class CpuSet(_IdSet):
    """Logical CPUs, by the numbers that Linux gives them."""

    __slots__ = ()


class NodeSet(_IdSet):
    """NUMA nodes, by the numbers that Linux gives them."""

    __slots__ = ()


def mask_of(ids: Iterable[int]) -> int:
    mask = 0
    for i in ids:
        mask |= 1 << i
    return mask


def bits(mask: int) -> Iterator[int]:
    """The numbers of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=4096)
def ids_of(mask: int) -> tuple[int, ...]:
    """The numbers of the set bits, remembered: for sets of NUMA nodes, of which few are used."""
    return tuple(bits(mask))


def lowest(mask: int, count: int) -> int:
    """The mask of the ``count`` lowest set bits."""
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


def format_list(mask: int) -> str:
    """The kernel's list text of a mask: runs joined as ``a-b``, nothing for the empty set."""
    parts: list[str] = []
    while mask:
        start = (mask & -mask).bit_length() - 1
        shifted = mask >> start
        run = (~shifted & (shifted + 1)).bit_length() - 1  # length of the run of ones
        parts.append(str(start) if run == 1 else f"{start}-{start + run - 1}")
        mask = mask >> (start + run) << (start + run)
    return ",".join(parts)


def parse_list(text: str) -> int:
    """The mask that a list text names, with the kubelet's refusals as ValueError.

    As in the kubelet there is no trimming and there are no strides.
    """
    if not text:
        return 0
    mask = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = atoi(first)
        end = atoi(last) if dash else start
        if start > end:
            raise ValueError(f'invalid range "{part}" ({start} > {end})')
        if end > ID_MAX:
            raise ValueError(f"the id {end} is above {ID_MAX}")
        mask |= (1 << (end + 1)) - (1 << start)
    return mask
