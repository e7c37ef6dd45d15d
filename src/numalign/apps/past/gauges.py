"""What charts show of a host: how much is given, and how broken up the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from numalign.apps.agent.model import AgentSetup
from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.scheduling.rebuild import frame_now, free_by_node
from numalign.core.fleet.measures import FRAGMENT_CPUS
from numalign.core.fleet.stranded import stranded_on
from numalign.core.kubelet.host import HostState
from numalign.wire.moments import Row, Series

MINUTE: Final = 60.0


def row_of(setup: AgentSetup, state: HostState, time: float, counts: tuple[int, int]) -> Row:
    """The host as it is at the end of a minute; ``counts`` are pods admitted and refused in it."""
    frame = frame_now(setup.host, setup.totals, state)
    free = free_by_node(frame, state)
    most = free_by_node(frame, frame.empty)
    free_cpus = [own.get("cpu", 0) // NANOS for own in free.values()]
    odd = sum(count % FRAGMENT_CPUS for count in free_cpus)
    return Row(
        time,
        _summed(most, "cpu") - sum(free_cpus),
        _summed(most, "memory") - _summed(free, "memory"),
        sum(mask.bit_count() for mask in state.devices.busy.values()),
        len(state.pods),
        *counts,
        round(odd / sum(free_cpus), 4) if any(free_cpus) else None,
        max(free_cpus, default=0),
        len(stranded_on(frame, state)),
    )


def series_of(setup: AgentSetup, state: HostState, rows: Sequence[Row]) -> Series:
    frame = frame_now(setup.host, setup.totals, state)
    most = free_by_node(frame, frame.empty)
    devices = sum(len(found.ids) for found in state.devices.resources.values())
    return Series(
        times=[row.time for row in rows],
        cpus_given=[row.cpus_given for row in rows],
        memory_given=[row.memory_given for row in rows],
        devices_given=[row.devices_given for row in rows],
        pods=[row.pods for row in rows],
        admitted=[row.admitted for row in rows],
        refused=[row.refused for row in rows],
        fragments=[row.fragments for row in rows],
        largest=[row.largest for row in rows],
        stranded=[row.stranded for row in rows],
        cpus=_summed(most, "cpu"),
        memory=_summed(most, "memory"),
        devices=devices,
    )


def _summed(amounts: dict[int, dict[str, int]], name: str) -> int:
    return sum(own.get(name, 0) for own in amounts.values()) // NANOS
