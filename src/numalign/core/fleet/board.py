"""The scores of all hosts for pods of one class, kept up to date: the heart of a simulated fleet.

A placement changes one host, so only hosts that changed since a class was last asked about are
scored again. Hosts stand in the order that decides between equal scores: the first of the best is
chosen. That order is fixed for a run. Choosing anew by chance among equals would spread pods over
hosts that are alike, and break up more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

H = TypeVar("H")
Scores = NDArray[np.int64]

UNFIT: Final = -1  # the score of a host that does not take the pod
_LOG_MAX: Final = 65_536


class Board(Generic[H]):
    """What hosts are worth to classes of pods. Whoever changes a host says so."""

    def __init__(self, hosts: Sequence[H]) -> None:
        self._hosts = hosts
        self._log: list[int] = []  # the hosts that changed, in turn
        self._forgotten: int = 0  # entries that were cut off the front of the log
        self._kept: dict[Hashable, tuple[int, Scores]] = {}

    def changed(self, host: int) -> None:
        self._log.append(host)
        if len(self._log) > _LOG_MAX:
            self._forgotten += len(self._log)
            self._log.clear()

    def scores(self, pod_class: Hashable, score: Callable[[H], int]) -> Scores:
        """The score of each host for a class; ``score`` must depend on class and host alone."""
        now = self._forgotten + len(self._log)
        kept = self._kept.get(pod_class)
        if kept is None or kept[0] < self._forgotten:
            found = np.fromiter((score(h) for h in self._hosts), np.int64, len(self._hosts))
        else:
            seen, found = kept
            for host in set(self._log[seen - self._forgotten :]):
                found[host] = score(self._hosts[host])
        self._kept[pod_class] = (now, found)
        return found


def first_best(scores: Scores) -> int | None:
    """The first of the hosts with the highest score; None where none takes the pod."""
    best = int(scores.argmax())
    return best if scores[best] > UNFIT else None
