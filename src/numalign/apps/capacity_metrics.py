"""Capacity and fragments as metrics, for the exporter (one host) and the scheduler (all of them).

A host is worked out again only when its state is another one, so a change costs one host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet import measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.host import HostState

HostNow = Callable[[str], tuple[Frame, HostState] | None]


class CapacityMetrics:
    """What is left on hosts, counted in pods of the reference shapes."""

    def __init__(self, registry: CollectorRegistry, mix: Mix) -> None:
        self._mix = mix
        names = {name for one in mix for c in one.pod.containers for name in c.limits}
        self._resources = sorted(names)
        self._rooms: dict[int, Rooms] = {}
        self._known: dict[str, tuple[HostState, list[int]]] = {}
        self._totals = [0] * (len(mix) + 2 * len(self._resources))
        self._pods = Gauge(
            "numalign_capacity_pods",
            "How many more pods of a reference shape the managers of the hosts would take.",
            ["shape"],
            registry=registry,
        )
        self._useless = Gauge(
            "numalign_capacity_useless",
            "F_numa: what is idle and of no use to a pod of the reference mix, expected.",
            ["resource"],
            registry=registry,
        )
        self._stranded = Gauge(
            "numalign_capacity_stranded",
            "What is idle on NUMA nodes where no reference shape that asks for it could sit.",
            ["resource"],
            registry=registry,
        )

    def update(self, hosts: Iterable[tuple[str, tuple[Frame, HostState] | None]]) -> None:
        """Looks at all hosts; those that are not told any more, or not for sure, do not count."""
        seen: set[str] = set()
        for name, found in hosts:
            if found is None:
                continue
            seen.add(name)
            frame, state = found
            known = self._known.get(name)
            if known is None or known[0] is not state:
                self._replace(name, (state, self._measured(frame, state)))
        for name in self._known.keys() - seen:
            self._replace(name, None)
        self._show()

    def _replace(self, name: str, new: tuple[HostState, list[int]] | None) -> None:
        old = self._known.pop(name, None)
        for sign, one in ((-1, old), (1, new)):
            for i, value in enumerate(one[1] if one is not None else ()):
                self._totals[i] += sign * value
        if new is not None:
            self._known[name] = new

    def _measured(self, frame: Frame, state: HostState) -> list[int]:
        rooms = self._rooms.get(id(frame))
        if rooms is None or rooms.frame is not frame:
            rooms = self._rooms[id(frame)] = Rooms(frame)
        room = rooms.room(state)
        counts = [measures.counted(rooms, state, room, one.pod) for one in self._mix]
        useless = measures.useless_of_each(rooms, state, room, self._mix, self._resources)
        stranded = [measures.stranded(rooms, room, self._mix, n) for n in self._resources]
        return [*counts, *useless, *stranded]

    def _show(self) -> None:
        totals = iter(self._totals)
        for one in self._mix:
            self._pods.labels(one.name).set(next(totals))
        for name in self._resources:
            self._useless.labels(name).set(next(totals) / measures.weight_of(self._mix, name))
        for name in self._resources:
            self._stranded.labels(name).set(next(totals))
