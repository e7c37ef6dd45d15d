"""Who arrives in which order, and which host comes first among equals: what a seed decides.

Draws are 32-bit numbers, taken one after the other as the original program takes them: with its
generator's numbers the arrivals are the same, with any others the same in distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from numalign.core.errors import ConfigError
from numalign.core.fleet.gpu_sharing.hosts import SharedPod

OVERLOAD: Final = 1.3  # arrivals go on until so much of all GPUs was asked for
_BITS_32: Final = 1 << 32
_BITS_31: Final = 1 << 31
_DRAWN_BY_WATCHERS: Final = 10  # by the original, between arrivals and ranks


class Draws:
    """A row of 32-bit numbers, and bounded numbers made of them."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self.count = 0

    def skip(self, count: int) -> None:
        for _ in range(count):
            self._next()

    def _next(self) -> int:
        self.count += 1
        try:
            return next(self._numbers)
        except StopIteration:
            raise ConfigError(
                f"the draws end after {self.count - 1} numbers; this run needs more: "
                "take a longer file, or leave out --draws"
            ) from None

    def shuffling(self, bound: int) -> int:
        """A number below the bound, by the multiplication that shuffles use."""
        product = self._next() * bound
        if product % _BITS_32 < bound:
            threshold = (_BITS_32 - bound) % bound
            while product % _BITS_32 < threshold:
                product = self._next() * bound
        return product // _BITS_32

    def below(self, bound: int) -> int:
        """A number below the bound, by remainder."""
        if bound & (bound - 1) == 0:
            return self._next() // 2 % bound
        most = _BITS_31 - 1 - _BITS_31 % bound
        value = self._next() // 2
        while value > most:
            value = self._next() // 2
        return value % bound


def arrivals(pods: Sequence[SharedPod], capacity: int, draws: Draws) -> list[int]:
    """The pods (by their place in the list sorted by name) in the order in which they arrive.

    All of them in a random order; then copies until the demand comes to 130 % of the GPUs, or, if
    it is above that already, without some.
    """
    draws.skip(1)
    order = list(range(len(pods)))
    for last in range(len(order) - 1, 0, -1):
        other = draws.shuffling(last + 1)
        order[last], order[other] = order[other], order[last]
    limit = OVERLOAD * capacity
    demand = sum(pod.demand for pod in pods)
    if demand > limit:
        while demand > limit:
            demand -= pods[order.pop(draws.below(len(order)))].demand
    elif demand < limit:
        # The test counts one GPU only, so a pod with several may pass the limit; the next draw
        # then ends it. It never goes down again.
        while demand + pods[drawn := draws.below(len(pods))].gpu_milli <= limit:
            order.append(drawn)
            demand += pods[drawn].demand
    return order


def host_ranks(count: int, draws: Draws) -> list[int]:
    """The rank of each host (in the order of names); the lowest wins among equal scores."""
    draws.skip(_DRAWN_BY_WATCHERS)
    ranks = [0] * count
    for i in range(count):
        j = draws.below(i + 1)
        ranks[i] = ranks[j]
        ranks[j] = i
    return ranks
