"""Where pods would sit, as a table with its totals, and refusals of equal pods told once.

``0-3@0`` stands for CPUs 0 to 3 of NUMA node 0; memory and devices are written alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from numalign.apps.snapshots.verdicts import Outcome, placed_containers
from numalign.core.explain.alignment import PlacedContainer
from numalign.core.kubelet.admission.verdict import refusal
from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.values.sets import format_list, mask_of
from numalign.core.values.sizes import counted, human

HEAD = ("POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "DISTANCE")
FLEXIBLE = (2, 3, 4)
NUMBERS = (6,)


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """The lines of the table for one admitted pod, one for each container."""
    name = f"{outcome.pod.namespace}/{outcome.pod.name}"
    places = outcome.after.host.cpu_topology
    return [
        (
            name if number == 0 else "",
            one.placement.container,
            cpus_text(one, places),
            memory_text(one),
            devices_text(one),
            {None: "-", True: "yes", False: "no"}[one.aligned],
            "-" if one.distance is None else f"{one.distance:.1f}",
        )
        for number, one in enumerate(placed_containers(outcome))
    ]


def cpus_text(one: PlacedContainer, places: CpuTopology) -> str:
    """Its own CPUs by NUMA node, such as 0-3@0 28-31@1."""
    own = one.placement.cpus
    if own is None:
        return "shared"
    return " ".join(
        f"{format_list(own & cpus)}@{node}" for node, cpus in places.nodes.items() if own & cpus
    )


def memory_text(one: PlacedContainer) -> str:
    parts = []
    for block in one.placement.memory:
        kind = "" if block.type == "memory" else f" {block.type}"
        parts.append(f"{size_text(block.size)}{kind}@{format_list(mask_of(block.nodes))}")
    return ", ".join(parts) or "any"


def size_text(size: int) -> str:
    """An amount of memory; an init container leaves all of its own to those after it."""
    return human(size) if size else "reused"


def devices_text(one: PlacedContainer) -> str:
    parts = []
    for name, ids in one.placement.devices.items():
        each = [
            f"{device}@{format_list(mask_of(nodes))}" if nodes else device
            for device, nodes in zip(ids, one.device_nodes[name], strict=True)
        ]
        parts.append(f"{name} {' '.join(each)}")
    return ", ".join(parts) or "-"


# Totals.


@dataclass(slots=True)
class _Totals:
    cpus: int = 0  # as a set: what init containers leave to others counts once
    nodes: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    devices: dict[str, set[str]] = field(default_factory=dict)
    own: int = 0
    aligned: int = 0


def totals_text(outcomes: Sequence[Outcome]) -> str:
    """One line over all pods that would be admitted."""
    found = _Totals()
    admitted = [outcome for outcome in outcomes if outcome.is_admitted]
    for outcome in admitted:
        _add(found, outcome)
    parts = [f"{len(admitted)} of {counted(len(outcomes), 'pod')} admitted"]
    if found.cpus:
        where = "node" if found.nodes.bit_count() == 1 else "nodes"
        count = counted(found.cpus.bit_count(), "CPU")
        parts.append(f"{count} of their own on NUMA {where} {format_list(found.nodes)}")
    for kind, size in found.memory.items():
        parts.append(f"{human(size)} {'of memory' if kind == 'memory' else kind}")
    parts += [f"{len(ids)} {name}" for name, ids in found.devices.items()]
    if found.own:
        containers = counted(found.own, "container")
        parts.append(f"{found.aligned} of {containers} with resources of their own aligned")
    return f"total: {', '.join(parts)}"


def _add(found: _Totals, outcome: Outcome) -> None:
    for one in placed_containers(outcome):
        own = one.placement
        if own.cpus is not None:
            found.cpus |= own.cpus
            found.nodes |= one.cpu_nodes
        for name, ids in own.devices.items():
            found.devices.setdefault(name, set()).update(ids)
        if one.aligned is not None:
            found.own += 1
            found.aligned += one.aligned
        for block in own.memory:  # of an init container only what nobody uses again
            found.memory[block.type] = found.memory.get(block.type, 0) + block.size


# Refusals.


def refusal_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Why pods would be refused; equal pods with the same reason are told together."""
    groups: dict[object, list[Outcome]] = {}
    for outcome in outcomes:
        same = replace(outcome.pod, uid="", name="")
        groups.setdefault(repr(same), []).append(outcome)
    for equal in groups.values():
        by_words: dict[tuple[str, str], list[Outcome]] = {}
        for outcome in equal:
            if (words := refusal(outcome.verdict)) is not None:
                by_words.setdefault(words, []).append(outcome)
        for (reason, message), refused in by_words.items():
            yield _refusal_line(equal, refused, f"{reason}: {message}")


def _refusal_line(equal: Sequence[Outcome], refused: Sequence[Outcome], why: str) -> str:
    first = refused[0].pod
    if len(equal) == 1:
        return f"{first.namespace}/{first.name} would be refused: {why}"
    names = _common_start([outcome.pod.name for outcome in equal]).rstrip("-")
    admitted = sum(outcome.is_admitted for outcome in equal)
    head = f"{first.namespace}/{names or first.name}: {admitted} of {len(equal)} admitted"
    who = f"{len(refused)} refused for the same reason" if refused[1:] else f"{first.name} refused"
    return f"{head}; {who}: {why}"


def _common_start(names: Sequence[str]) -> str:
    least, most = min(names), max(names)
    for index, letter in enumerate(least):
        if most[index] != letter:
            return least[:index]
    return least
