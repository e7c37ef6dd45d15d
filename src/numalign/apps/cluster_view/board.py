"""The tiles of a fleet, kept up: a host is worked out again only when something of it changed.

``look`` takes what is needed from a scheduler's state in one go, and is called where that state may
be read. ``Board.update`` works on what was taken, so that a thread can do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from numalign.apps.cluster_view.fleet import pool_of
from numalign.apps.cluster_view.tiles import (
    FleetShape,
    FreeOf,
    HostTile,
    NodeTile,
    PendingPod,
)
from numalign.apps.scheduler.find_host import find
from numalign.apps.scheduler.model import State
from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.zones import HostTopology, config_of, numa_zones
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node
from numalign.core.fleet import measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Rooms
from numalign.core.fleet.stranded import amount, stranded_on
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod, counted, pod_requests
from numalign.core.settings import Settings
from numalign.wire.kubernetes.scheduling import ClusterPod

PENDING_SHOWN_MAX: Final = 200
SEARCHED_MAX: Final = 50  # pods for which a host is looked for, where nobody said why they wait
FRAMES_KEPT_MAX: Final = 512

PodKey = tuple[str, str]
HostNow = Callable[[str], tuple[Frame, HostState] | None]


@dataclass(frozen=True, slots=True)
class SeenHost:
    """All that a tile is made of."""

    name: str
    facts: HostFacts | None
    topology: HostTopology | None
    now: tuple[Frame, HostState] | None
    pods: tuple[PodKey, ...]
    refused: int

    def is_as(self, other: SeenHost) -> bool:
        """Whether the tile would be the same; objects are compared by identity."""
        same_now = (
            self.now is None
            if other.now is None
            else self.now is not None and self.now[1] is other.now[1]
        )
        return (
            same_now
            and self.facts is other.facts
            and self.topology is other.topology
            and self.refused == other.refused
            and self.pods == other.pods
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A fleet at one moment."""

    hosts: Sequence[SeenHost]
    pending: Sequence[PendingPod]
    pending_total: int
    problems: Sequence[str] = ()


def look(
    state: State,
    now: HostNow,
    *,
    refused: Mapping[str, int] | None = None,
    searches: bool = False,
    problems: Sequence[str] = (),
) -> Seen:
    """What there is to see of a cluster; ``now`` gives a host as its managers have it.

    With ``searches`` a host is looked for where nobody has said why a pod waits, which takes time.
    """
    by_host: dict[str, list[PodKey]] = {}
    for uid, host in state.placed.items():
        pod = state.pods.get(uid)
        if pod is not None:
            by_host.setdefault(host, []).append((pod.pod.namespace, pod.pod.name))
    names = sorted(state.hosts.keys() | state.topologies.keys())
    hosts = [
        SeenHost(
            name,
            state.hosts.get(name),
            state.topologies.get(name),
            now(name),
            tuple(sorted(by_host.get(name, ()))),
            (refused or {}).get(name, 0),
        )
        for name in names
    ]
    waiting = [
        pod
        for uid, pod in state.pods.items()
        if uid not in state.placed and not pod.host and not pod.is_over
    ]
    pending = [
        _pending(state, pod, searches=searches and number < SEARCHED_MAX)
        for number, pod in enumerate(waiting[:PENDING_SHOWN_MAX])
    ]
    return Seen(hosts, pending, len(waiting), problems)


def _pending(state: State, pod: ClusterPod, *, searches: bool) -> PendingPod:
    why = state.told.get(pod.pod.uid) or pod.unschedulable or ""
    if not why and pod.is_gated:
        why = "waits at a scheduling gate"
    elif not why and searches:
        host, message = find(state, pod)
        why = message if host is None else f"would fit on {host}"
    core = pod.pod
    return PendingPod(core.namespace, core.name, core.uid, asks_text(core), why, pod.owner)


def asks_text(pod: Pod) -> str:
    """What a pod asks for in all: ``16 CPUs, 64 GiB, 1 nvidia.com/gpu``."""
    found = []
    for name, quantity in pod_requests(pod, Settings()).items():
        number = counted(name, quantity)
        if name == "cpu" and number % 1_000:
            found.append(f"{number}m CPU")
        else:
            found.append(amount(name, number // 1_000 if name == "cpu" else number))
    return ", ".join(found) or "nothing"


@dataclass(slots=True)
class Board:
    """The tiles in their newest version."""

    mix: Mix = ()
    pool_label: str | None = None
    version: int = 0
    tiles: dict[str, HostTile] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)  # name -> the version in which it went
    seen: Seen = field(default_factory=lambda: Seen((), (), 0))
    _known: dict[str, SeenHost] = field(default_factory=dict)
    _uncounted: set[str] = field(default_factory=set)
    _rooms: dict[int, Rooms] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether shapes are still to be counted on some hosts."""
        return bool(self._uncounted)

    def update(self, seen: Seen, counts: Callable[[], bool] = lambda: True) -> bool:
        """Takes over what was seen; whether anything of it is new.

        Shapes are counted as long as ``counts`` says so, on the other hosts the next time.
        """
        new = [
            host
            for host in seen.hosts
            if host.name not in self._known
            or host.name in self._uncounted
            or not host.is_as(self._known[host.name])
        ]
        lost = self._known.keys() - {host.name for host in seen.hosts}
        is_other = (
            bool(new or lost)
            or seen.pending != self.seen.pending
            or seen.pending_total != self.seen.pending_total
            or tuple(seen.problems) != tuple(self.seen.problems)
        )
        if not is_other:
            return False
        version = self.version + 1
        for host in new:
            is_counted = counts()
            tile = self._tile(host, version, counts=is_counted)
            self._known[host.name] = host
            (self._uncounted.discard if is_counted else self._uncounted.add)(host.name)
            if is_counted or not _is_twin(tile, self.tiles.get(host.name)):
                self.tiles[host.name] = tile
            self.gone.pop(host.name, None)
        for name in lost:
            del self.tiles[name], self._known[name]
            self._uncounted.discard(name)
            self.gone[name] = version
        self.seen, self.version = seen, version
        return True

    def known(self, name: str) -> SeenHost | None:
        """What the tile of a host is made of."""
        return self._known.get(name)

    def since(self, version: int) -> tuple[list[HostTile], list[str]]:
        """The tiles that changed after a version, and the hosts that went."""
        tiles = [self.tiles[name] for name in sorted(self.tiles) if self.tiles[name].at > version]
        return tiles, sorted(name for name, at in self.gone.items() if at > version)

    def shapes(self) -> list[FleetShape]:
        """How many more of each shape the whole fleet takes."""
        found = []
        for one in self.mix:
            counts = [tile.fits.get(one.name, 0) for tile in self.tiles.values()]
            amounts = {n: str(q) for c in one.pod.containers for n, q in c.limits.items()}
            on = sum(1 for count in counts if count)
            found.append(FleetShape(one.name, amounts, one.weight, sum(counts), on))
        return found

    def _tile(self, host: SeenHost, version: int, *, counts: bool) -> HostTile:
        tile = HostTile(
            host.name,
            version,
            pool=pool_of(host.facts.labels, self.pool_label) if host.facts is not None else "",
            pods=len(host.pods),
            refused=host.refused,
            unready=_unready(host.facts),
        )
        if host.topology is None:
            tile.stale = "it publishes nothing: run 'numalign export' there"
            return tile
        config = config_of(host.topology)
        tile.policy = f"{config.policy}, {config.scope}"
        tile.stale = behind(host.topology, host.pods)
        if host.now is None:
            tile.nodes = _nodes_as_published(host.topology)
            return tile
        frame, state = host.now
        tile.exact = True
        tile.nodes = _nodes(frame, state)
        stranded = stranded_on(frame, state)
        tile.stranded = [f"NUMA node {one.node}: {one.text}" for one in stranded]
        if not counts:
            return tile
        rooms = self._rooms_of(frame)
        room = rooms.room(state)
        tile.fits = {one.name: measures.counted(rooms, state, room, one.pod) for one in self.mix}
        return tile

    def _rooms_of(self, frame: Frame) -> Rooms:
        rooms = self._rooms.get(id(frame))
        if rooms is None or rooms.frame is not frame:
            if len(self._rooms) >= FRAMES_KEPT_MAX:
                self._rooms.clear()
            rooms = self._rooms[id(frame)] = Rooms(frame)
        return rooms


def _is_twin(tile: HostTile, other: HostTile | None) -> bool:
    """Whether a tile says the same as the one before it, but for its version."""
    return other is not None and msgspec.structs.replace(tile, at=other.at) == other


def _unready(facts: HostFacts | None) -> str:
    if facts is None:
        return ""
    if not facts.is_ready:
        return "NotReady"
    return "Cordoned" if facts.is_unschedulable else ""


def behind(topology: HostTopology, pods: Iterable[PodKey]) -> str:
    """Why what a host publishes is not what the cluster says of it; empty if they agree."""
    bound = list(pods)
    if topology.placement is not None:
        published = {pod.key for pod in topology.placement.pods}
        missing, left = len(set(bound) - published), len(published - set(bound))
        parts = [
            *([f"{missing} bound there that it does not publish yet"] if missing else []),
            *([f"{left} published there that the cluster does not have"] if left else []),
        ]
        return f"pods differ: {', '.join(parts)}" if parts else ""
    known = topology.fingerprint
    if known is None or topology.is_fingerprint_exclusive or known == fingerprint(bound):
        return ""
    return "its fingerprint is of other pods than those bound there"


def _nodes(frame: Frame, state: HostState) -> list[NodeTile]:
    most, free = free_by_node(frame, frame.empty), free_by_node(frame, state)
    return [
        _node(
            node,
            {
                name: (free[node].get(name, 0) // NANOS, nanos // NANOS)
                for name, nanos in sorted(most[node].items())
            },
        )
        for node in sorted(most)
    ]


def _nodes_as_published(topology: HostTopology) -> list[NodeTile]:
    return [
        _node(
            number,
            {
                one.name: (max(0, one.available.value()), one.allocatable.value())
                for one in zone.resources
            },
        )
        for number, zone in numa_zones(topology)
    ]


def _node(number: int, amounts: Mapping[str, FreeOf]) -> NodeTile:
    others = {
        name: found for name, found in amounts.items() if name not in {"cpu", "memory"} and found[1]
    }
    nothing = 0, 0
    return NodeTile(number, amounts.get("cpu", nothing), amounts.get("memory", nothing), others)
