"""All hosts at once: the amounts of each resource as a table of NUMA nodes by hosts.

One pod is compared with thousands of hosts in a few passes over whole tables. CPUs are counted in
thousandths, everything else in whole units. A host (or pod) with other amounts is *odd*: it is
asked one by one in ``match``, which these tables always agree with.

A table is changed in place, by its one owner: making 5,000 hosts anew for every pod would cost
more than all decisions. Everything that comes out is a value of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from numalign.core.cluster.nrt_match.least_nodes import Distances, distances_of
from numalign.core.cluster.nrt_match.need import NANOS, whole
from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.cluster.publish.zones import POD, SINGLE_NUMA_NODE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Whys = npt.NDArray[np.int8]
Slots = npt.NDArray[np.intp]

NOT_LISTED: Final = -(2**62)  # in place of an amount
# Up to here a hundredfold is exact in floating point, and so is the whole part of a percentage:
# what a division rounds off is less than one part of the divisor.
AMOUNT_LIMIT: Final = 2**53 // 100
_CPU_UNIT: Final = NANOS // 1000
_HOSTS_FIRST: Final = 64
_ZONES_FIRST: Final = 2
_CHANGES_KEPT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Lines:
    """Some hosts side by side: what the passes over the tables read. Never written to."""

    count: int
    depth: int  # zones of the host with the most
    slots: Slots
    amounts: Mapping[str, Ints]  # (zones, hosts); NOT_LISTED where a zone does not list it
    values: Mapping[str, Floats]  # the same in whole units, rounded up; infinite for nothing
    blanks: Mapping[str, Floats]  # (zones, hosts): 1 where there is nothing of it, else 0
    listed: Mapping[str, Bools]  # (hosts): some zone lists it
    offered: Mapping[str, Bools]  # (hosts): the host has it in its allocatable
    is_zone: Bools  # (zones, hosts)
    is_present: Bools
    is_stale: Bools
    has_zones: Bools
    is_single: Bools  # policy single-numa-node
    is_pod_scope: Bools
    max_nodes: Ints
    distances: Ints  # which of the known distances


class Columns:
    """The tables of all hosts. Owned and changed by one caller."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._records: list[HostRecord | None] = []
        self._vacant: list[int] = []
        self._odd: set[int] = set()
        self._capacity, self._depth = _HOSTS_FIRST, _ZONES_FIRST
        self._amounts: dict[str, Ints] = {}
        self._values: dict[str, Floats] = {}
        self._blanks: dict[str, Floats] = {}
        self._listed: dict[str, Bools] = {}
        self._offered: dict[str, Bools] = {}
        self._is_zone = np.zeros((self._depth, self._capacity), np.bool_)
        self._flags = {name: np.zeros(self._capacity, np.bool_) for name in _FLAGS}
        self._max_nodes = np.ones(self._capacity, np.int64)
        self._distances = np.zeros(self._capacity, np.int64)
        self._known_distances: dict[Distances, int] = {(): 0}
        self._changes: list[int] = []  # slots in the order in which they changed
        self._changes_dropped = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size(self) -> int:
        """The number of slots, vacant ones included: the length of every column."""
        return len(self._records)

    @property
    def depth(self) -> int:
        """The most zones that there is room for."""
        return self._depth

    def slot(self, name: str) -> int | None:
        return self._slots.get(name)

    def record(self, slot: int) -> HostRecord | None:
        """The host in a slot; None if it is vacant."""
        return self._records[slot]

    def distances_known(self) -> list[Distances]:
        return list(self._known_distances)

    # Changes.

    def put(self, record: HostRecord) -> int:
        """Takes up a host, or its new state; its slot."""
        slot = self._slots.get(record.name)
        before = None
        if slot is None:
            slot = self._vacant.pop() if self._vacant else len(self._records)
            self._slots[record.name] = slot
            if slot == len(self._records):
                self._records.append(None)
        else:
            before = self._records[slot]
        zones = record.zones or ()
        self._grow(slot + 1, len(zones))
        self._records[slot] = record
        if before is None or before.config != record.config or not _same_frame(before, record):
            self._write_frame(slot, record)
        self._write_amounts(slot, record)
        self._changed(slot)
        return slot

    def remove(self, name: str) -> None:
        """Forgets a host; nothing happens if it is not known."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return
        self._write_frame(slot, HostRecord(name))
        self._write_amounts(slot, HostRecord(name))
        self._flags["is_present"][slot] = False
        self._records[slot] = None
        self._odd.discard(slot)
        self._vacant.append(slot)
        self._changed(slot)

    def _changed(self, slot: int) -> None:
        self._changes.append(slot)
        if len(self._changes) > 2 * _CHANGES_KEPT:
            del self._changes[:_CHANGES_KEPT]
            self._changes_dropped += _CHANGES_KEPT

    @property
    def change_count(self) -> int:
        """How often a host has changed so far."""
        return self._changes_dropped + len(self._changes)

    def changed_since(self, count: int) -> set[int] | None:
        """The slots that changed after so many changes; None if there were too many to tell."""
        if count < self._changes_dropped or self.change_count - count > _CHANGES_KEPT:
            return None
        return set(self._changes[count - self._changes_dropped :])

    def _grow(self, hosts: int, zones: int) -> None:
        if hosts <= self._capacity and zones <= self._depth:
            return
        capacity, depth = self._capacity, max(self._depth, zones)
        while capacity < hosts:
            capacity *= 2
        shape = (depth, capacity)
        self._amounts = {n: _grown(a, shape, NOT_LISTED) for n, a in self._amounts.items()}
        self._values = {n: _grown(a, shape, np.inf) for n, a in self._values.items()}
        self._blanks = {n: _grown(a, shape, 1) for n, a in self._blanks.items()}
        self._listed = {n: _grown(a, shape[1:], 0) for n, a in self._listed.items()}
        self._offered = {n: _grown(a, shape[1:], 0) for n, a in self._offered.items()}
        self._flags = {n: _grown(a, shape[1:], 0) for n, a in self._flags.items()}
        self._is_zone = _grown(self._is_zone, shape, 0)
        self._max_nodes = _grown(self._max_nodes, shape[1:], 1)
        self._distances = _grown(self._distances, shape[1:], 0)
        self._capacity, self._depth = capacity, depth

    def _write_frame(self, slot: int, record: HostRecord) -> None:
        """What seldom changes: policy, scope, offered resources, distances."""
        zones, config = record.zones or (), record.config
        self._is_zone[:, slot] = False
        self._is_zone[: len(zones), slot] = True
        flags = self._flags
        flags["is_present"][slot] = True
        flags["is_stale"][slot] = not record.is_fresh
        flags["has_zones"][slot] = record.zones is not None
        flags["is_single"][slot] = config.policy == SINGLE_NUMA_NODE
        flags["is_pod_scope"][slot] = config.scope == POD
        self._max_nodes[slot] = config.max_nodes
        known = self._known_distances
        self._distances[slot] = known.setdefault(distances_of(zones), len(known))
        for name in record.offered - self._offered.keys():
            self._offered[name] = np.zeros(self._capacity, np.bool_)
        for name, column in self._offered.items():
            column[slot] = name in record.offered

    def _write_amounts(self, slot: int, record: HostRecord) -> None:
        zones = record.zones or ()
        is_odd = False
        for name in {n for zone in zones for n in zone.available} - self._amounts.keys():
            shape = (self._depth, self._capacity)
            self._amounts[name] = np.full(shape, NOT_LISTED, np.int64)
            self._values[name] = np.full(shape, np.inf)
            self._blanks[name] = np.ones(shape)
            self._listed[name] = np.zeros(self._capacity, np.bool_)
        empty = [NOT_LISTED] * (self._depth - len(zones))
        nothing = [np.inf] * len(empty)
        for name, table in self._amounts.items():
            unit, limit = unit_of(name), AMOUNT_LIMIT * unit_of(name)
            amounts, values = [], []
            for zone in zones:
                nanos = zone.available.get(name)
                if nanos is None:
                    amounts.append(NOT_LISTED)
                    values.append(np.inf)
                    continue
                if nanos % unit or not 0 <= nanos < limit:
                    is_odd = True  # it is asked elsewhere, so any number will do here
                    nanos = 0
                amounts.append(nanos // unit)
                values.append(whole(nanos) or np.inf)
            row = np.array(values + nothing)
            table[:, slot] = amounts + empty
            self._values[name][:, slot] = row
            self._blanks[name][:, slot] = np.isinf(row)
            self._listed[name][slot] = any(a != NOT_LISTED for a in amounts)
        (self._odd.add if is_odd else self._odd.discard)(slot)

    # Reading.

    def numbers(self, slots: Slots | slice) -> Slots:
        return np.arange(*slots.indices(self.size)) if isinstance(slots, slice) else slots

    def lines(self, slots: Slots | slice) -> Lines:
        numbers = self.numbers(slots)
        part: Any = slice(numbers[0], numbers[-1] + 1) if isinstance(slots, slice) else slots
        return Lines(
            len(numbers),
            self._depth,
            numbers,
            {name: table[:, part] for name, table in self._amounts.items()},
            {name: table[:, part] for name, table in self._values.items()},
            {name: table[:, part] for name, table in self._blanks.items()},
            {name: column[part] for name, column in self._listed.items()},
            {name: column[part] for name, column in self._offered.items()},
            self._is_zone[:, part],
            max_nodes=self._max_nodes[part],
            distances=self._distances[part],
            **{name: column[part] for name, column in self._flags.items()},
        )

    def odd_among(self, slots: Slots | slice) -> Iterable[tuple[int, HostRecord]]:
        """The odd hosts as (position among these slots, record)."""
        if not self._odd:
            return
        for position, slot in enumerate(self.numbers(slots).tolist()):
            record = self._records[slot]
            if record is not None and slot in self._odd:
                yield position, record


_FLAGS: Final = ("is_present", "is_stale", "has_zones", "is_single", "is_pod_scope")


def _same_frame(before: HostRecord, after: HostRecord) -> bool:
    if before.offered != after.offered or before.is_fresh != after.is_fresh:
        return False
    if before.zones is None or after.zones is None:
        return before.zones is after.zones
    return len(before.zones) == len(after.zones) and all(
        old.node == new.node and old.costs == new.costs
        for old, new in zip(before.zones, after.zones, strict=True)
    )


def _grown(table: npt.NDArray[Any], shape: tuple[int, ...], fill: float) -> npt.NDArray[Any]:
    larger = np.full(shape, fill, table.dtype)
    larger[tuple(slice(0, n) for n in table.shape)] = table
    return larger


def unit_of(name: str) -> int:
    """The billionths in one unit of a column."""
    return _CPU_UNIT if name == "cpu" else NANOS
