"""Capacity and fragments as metrics, for the exporter (one host) and the scheduler (all of them).

A host is worked out again only when its state is another one, so a change costs one host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet import measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.host import HostState

_Key = tuple[str, str, str]  # measure, shape or resource, NUMA node
HostNow = Callable[[str], tuple[Frame, HostState] | None]


class CapacityMetrics:
    """What is left on hosts, counted in pods of the reference shapes."""

    def __init__(self, registry: CollectorRegistry, mix: Mix) -> None:
        self._mix = mix
        names = {name for one in mix for c in one.pod.containers for name in c.limits}
        self._resources = sorted(names)
        self._rooms: dict[int, Rooms] = {}
        self._known: dict[str, tuple[HostState, Counter[_Key]]] = {}
        self._totals: Counter[_Key] = Counter()
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
            "What is idle on this NUMA node where no reference shape that asks for it could sit.",
            ["resource", "node"],
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

    def _replace(self, name: str, new: tuple[HostState, Counter[_Key]] | None) -> None:
        old = self._known.pop(name, None)
        if old is not None:
            self._totals.subtract(old[1])
        if new is not None:
            self._totals.update(new[1])
            self._known[name] = new

    def _measured(self, frame: Frame, state: HostState) -> Counter[_Key]:
        rooms = self._rooms.get(id(frame))
        if rooms is None or rooms.frame is not frame:
            rooms = self._rooms[id(frame)] = Rooms(frame)
        room = rooms.room(state)
        found: Counter[_Key] = Counter()
        for one in self._mix:
            found["pods", one.name, ""] = measures.counted(rooms, state, room, one.pod)
        useless = measures.useless_of_each(rooms, state, room, self._mix, self._resources)
        ids = sorted(node.id for node in frame.host.info.nodes)
        for name, amount in zip(self._resources, useless, strict=True):
            found["useless", name, ""] = amount
            by_node = measures.stranded_by_node(rooms, room, self._mix, name)
            for node, part in zip(ids, by_node, strict=True):
                found["stranded", name, str(node)] = part
        return found

    def _show(self) -> None:
        for one in self._mix:
            self._pods.labels(one.name).set(self._totals["pods", one.name, ""])
        for name in self._resources:
            weight = measures.weight_of(self._mix, name)
            self._useless.labels(name).set(self._totals["useless", name, ""] / weight)
        for kind, name, node in self._totals:
            if kind == "stranded":
                self._stranded.labels(name, node).set(self._totals[kind, name, node])
