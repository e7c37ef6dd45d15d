"""What is measured while a run goes on: samples at fixed moments, and the hosts at the end.

Between two samples only some hosts change, so only those are measured again. All sums are of whole
numbers: they do not depend on the order of adding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numalign.core.fleet import capacity, measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.simulation.model import HostEnd, Sample, SimHost
from numalign.core.kubelet.decisions import Admitted
from numalign.core.values.sets import mask_of

if TYPE_CHECKING:
    from numalign.core.fleet.simulation.run import Simulation


GI: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Measured:
    """One host, in whole numbers."""

    sums: tuple[int, ...]
    largest: int


class Observer:
    """Looks at a run at given moments, in ascending order."""

    def __init__(self, moments: Sequence[float], mix: Mix, shapes: Mix) -> None:
        self._moments = list(moments)
        self._next = 0
        self._mix = mix
        self._weight = measures.weight_of(mix, "cpu")
        self._shapes = shapes
        names = {name for one in mix for c in one.pod.containers for name in c.limits}
        self._devices = sorted(name for name in names if "/" in name)
        # Whose F_numa and stranded part are followed.
        self._resources = ["cpu", "memory", *self._devices]
        self._known: dict[int, _Measured] = {}
        self._changed: set[int] = set()
        self._totals: list[int] = []

    def changed(self, host: int) -> None:
        self._changed.add(host)

    def look(self, run: Simulation, at: float) -> None:
        """Takes the samples that are due before something happens at this moment."""
        while self._next < len(self._moments) and self._moments[self._next] < at:
            run.result.samples.append(self._sample(run, self._moments[self._next]))
            self._next += 1

    def finish(self, run: Simulation) -> None:
        if not run.result.is_complete:
            self._moments = [m for m in self._moments[: self._next + 1] if m <= run.now]
        while self._next < len(self._moments):
            run.result.samples.append(self._sample(run, self._moments[self._next]))
            self._next += 1
        run.result.hosts = [self._end(host) for host in run.hosts]
        run.result.binding = {one.name: _binding(run.hosts, one) for one in self._shapes}

    # One host.

    def _measure(self, host: SimHost) -> _Measured:
        rooms, state, room = host.rooms, host.state, host.room
        offer = host.allocatable
        sums = [room.idle("cpu"), measures.odd_cpus(room)]
        useless = measures.useless_of_each(rooms, state, room, self._mix, self._resources)
        for name, bad in zip(self._resources, useless, strict=True):
            used = offer.get(name, 0) - room.total.get(name, 0)
            stranded = measures.stranded(rooms, room, self._mix, name)
            sums += [offer.get(name, 0), used, bad, stranded]
        for shape in self._shapes:
            sums.append(measures.counted(rooms, state, room, shape.pod))
        return _Measured(tuple(sums), measures.largest_on_a_node(room))

    def _refresh(self, hosts: Sequence[SimHost]) -> None:
        if not self._known:
            self._changed = set(range(len(hosts)))
        kept: dict[tuple[int, object], _Measured] = {}
        for index in sorted(self._changed):
            host = hosts[index]
            # Hosts of one frame with nothing on them are alike.
            key = (id(host.frame), None if host.state.pods else 0)
            found = kept.get(key) if not host.state.pods else None
            if found is None:
                found = self._measure(host)
                if not host.state.pods:
                    kept[key] = found
            old = self._known.get(index)
            if not self._totals:
                self._totals = [0] * len(found.sums)
            before = old.sums if old is not None else (0,) * len(found.sums)
            for i, value in enumerate(found.sums):
                self._totals[i] += value - before[i]
            self._known[index] = found
        self._changed.clear()

    def _sample(self, run: Simulation, at: float) -> Sample:
        self._refresh(run.hosts)
        totals = iter(self._totals)
        take: Callable[[], int] = lambda: next(totals)  # noqa: E731 - a name for what follows
        idle, odd = take(), take()
        of_each = {name: [take() for _ in range(4)] for name in self._resources}
        offered, used, bad, stranded = of_each["cpu"]
        memory, memory_used, memory_bad, memory_stranded = of_each["memory"]
        weight = measures.weight_of(self._mix, "memory")
        values: dict[str, float] = {
            "cpu_used": _share(used, offered),
            "memory_used": _share(memory_used, memory),
            "f_numa_cpu": bad / self._weight,
            "f_numa_cpu_share": _share(bad / self._weight, idle),
            "fragment_rate": _share(odd, idle),
            "stranded_cpus": float(stranded),
            "largest_shape_cpus": float(max(one.largest for one in self._known.values())),
            "waiting": float(run.waiting),
            "placed_so_far": float(run.result.placed),
            "refusals_so_far": float(sum(run.result.refusals.values())),
            "f_numa:memory, GiB": memory_bad / weight / GI,
            "stranded:memory, GiB": memory_stranded / GI,
        }
        for name in self._devices:
            offered, used, bad, stranded = of_each[name]
            values[f"used:{name}"] = _share(used, offered)
            values[f"f_numa:{name}"] = bad / measures.weight_of(self._mix, name)
            values[f"stranded:{name}"] = float(stranded)
        for shape in self._shapes:
            values[f"capacity:{shape.name}"] = float(take())
        return Sample(at, values)

    def _end(self, host: SimHost) -> HostEnd:
        offer = host.allocatable.get("cpu", 0)
        idle = host.room.idle("cpu")
        bad = measures.useless(host.rooms, host.state, host.room, self._mix, "cpu") / self._weight
        used = _share(offer - host.room.total.get("cpu", 0), offer)
        return HostEnd(host.name, host.group, len(host.state.pods), used, _share(bad, idle))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _binding(hosts: Sequence[SimHost], shape: measures.ReferencePod) -> dict[str, int]:
    """What stops one more pod of a shape, and on how many of the hosts that do not take one."""
    found: Counter[str] = Counter()
    known: dict[tuple[object, ...], str | None] = {}
    for host in hosts:
        if host.rooms.fits(host.state, host.room, shape.pod):
            continue
        key = capacity.state_key(host.frame, host.state)
        if key not in known:
            known[key] = capacity.filled(host.frame, host.state, shape.pod).binding.words
        found[str(known[key])] += 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def mean_distance(host: SimHost, verdict: Admitted) -> float:
    """The mean distance between the NUMA nodes that a pod uses, 10 for one node."""
    info = host.frame.host.info
    places = host.frame.host.cpu_topology
    found = count = 0
    for placed in verdict.placements:
        nodes = places.nodes_of(placed.cpus or 0)
        for block in placed.memory:
            nodes |= mask_of(block.nodes)
        used = [i for i, node in enumerate(info.nodes) if nodes >> node.id & 1]
        for i in used:
            row = info.nodes[i].distances
            for j in used:
                count += 1
                found += row[j] if row is not None else 10 if i == j else 20
    return found / count if count else 10.0
