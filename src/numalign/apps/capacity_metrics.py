"""Capacity and fragments as metrics, for the exporter (one host) and the scheduler (all of them).

A host is worked out again only when its state is another one, and hosts that are alike once. Who
asks waits for a bounded time only: what is not done by then is done at the next look.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet import capacity, measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.host import HostState

_Key = tuple[str, str, str]  # measure, shape or resource, NUMA node
LOOK_SECONDS_MAX: Final = 0.25
ALIKE_MAX: Final = 4_096
HostNow = Callable[[str], tuple[Frame, HostState] | None]


class CapacityMetrics:
    """What is left on hosts, counted in pods of the reference shapes."""

    def __init__(
        self,
        registry: CollectorRegistry,
        mix: Mix,
        *,
        seconds_max: float = LOOK_SECONDS_MAX,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mix = mix
        self._seconds_max = seconds_max
        self._now = now
        self._alike: dict[tuple[object, ...], Counter[_Key]] = {}
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
        self._behind = Gauge(
            "numalign_capacity_hosts_behind",
            "Hosts that have changed since they were counted, or were not counted yet.",
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
        end = self._now() + self._seconds_max
        seen: set[str] = set()
        behind = 0
        for name, found in hosts:
            if found is None:
                continue
            seen.add(name)
            frame, state = found
            known = self._known.get(name)
            if known is not None and known[0] is state:
                continue
            if self._now() < end:
                self._replace(name, (state, self._measured(frame, state)))
            else:
                behind += 1
        for name in self._known.keys() - seen:
            self._replace(name, None)
        self._behind.set(behind)
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
        key = capacity.state_key(frame, state)
        if key not in self._alike:
            if len(self._alike) >= ALIKE_MAX:
                self._alike.clear()
            self._alike[key] = self._counted(rooms, state)
        return self._alike[key]

    def _counted(self, rooms: Rooms, state: HostState) -> Counter[_Key]:
        frame, room = rooms.frame, rooms.room(state)
        counts = {one.name: measures.counted(rooms, state, room, one.pod) for one in self._mix}
        found = Counter[_Key]({("pods", name, ""): count for name, count in counts.items()})
        useless = measures.useless_by(
            lambda one: counts[one.name], rooms, room, self._mix, self._resources
        )
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
