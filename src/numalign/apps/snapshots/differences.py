"""Two moments of a host, or two hosts: who came, who went, who moved, and what else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numalign.apps.snapshots.inputs import LoadedSnapshot
from numalign.core.kubelet.state import Block
from numalign.core.machine.machine import Machine
from numalign.core.values.sets import format_list
from numalign.core.values.sizes import human
from numalign.wire.kubelet.config import document_of


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as before; ``before`` None: it is new, ``after`` None: it is gone."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Differences:
    """Everything that differs between two snapshots."""

    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    moved: tuple[Change, ...] = ()
    pool: Change | None = None
    config: tuple[Change, ...] = ()
    machine: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        changed = self.came or self.went or self.moved or self.config or self.machine
        return not changed and self.pool is None


def differences(a: LoadedSnapshot, b: LoadedSnapshot) -> Differences:
    """What is different in ``b``."""
    before, after = _placements(a), _placements(b)
    pools = [found.snapshot.state.cpu.shared for found in (a, b)]
    return Differences(
        tuple(sorted(_name(b, uid) for uid in after.keys() - before.keys())),
        tuple(sorted(_name(a, uid) for uid in before.keys() - after.keys())),
        tuple(
            Change(f"{_name(b, uid)} {what}", old, new)
            for uid in before.keys() & after.keys()
            for what, old, new in _changed(before[uid], after[uid])
        ),
        None if pools[0] == pools[1] else Change("shared pool", *map(_pool, pools)),
        tuple(Change(*c) for c in _changed(_config(a), _config(b))),
        tuple(Change(*c) for c in _changed(_machine(a.inputs.machine), _machine(b.inputs.machine))),
    )


def _name(found: LoadedSnapshot, uid: str) -> str:
    return found.snapshot.names.get(uid, uid)


def _pool(mask: int) -> str:
    return f"{format_list(mask) or 'no CPU'} ({mask.bit_count()})"


def _changed(
    before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str | None]]:
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _placements(found: LoadedSnapshot) -> dict[str, dict[str, str]]:
    """What each container of each pod holds, as texts."""
    state = found.snapshot.state
    placed: dict[str, dict[str, str]] = {}
    for uid, pod in state.pods.items():
        own = placed.setdefault(uid, {})
        for container in pod.in_order:
            cpus = state.cpu.entries.get(uid, {}).get(container.name)
            if cpus is not None:
                own[f"{container.name} CPUs"] = format_list(cpus)
            blocks = state.memory.entries.get(uid, {}).get(container.name, ())
            if blocks:
                own[f"{container.name} memory"] = _memory(blocks)
            held = state.devices.entries.get(uid, {}).get(container.name, {})
            for name, devices in held.items():
                own[f"{container.name} {name}"] = ", ".join(devices.ids)
        if state.cpu.pod_sets.get(uid):
            own["CPUs of the pod"] = format_list(state.cpu.pod_sets[uid])
    return placed


def _memory(blocks: tuple[Block, ...]) -> str:
    parts = sorted(
        f"{human(b.size)}{'' if b.type == 'memory' else f' {b.type}'} on "
        f"{','.join(map(str, b.nodes))}"
        for b in blocks
    )
    return ", ".join(parts)


def _config(found: LoadedSnapshot) -> dict[str, str]:
    document: dict[str, Any] = document_of(found.config)
    return {
        "kubernetes": str(found.inputs.older or found.inputs.version),
        "fidelity": found.inputs.fidelity.value,
        **{key: str(value) for key, value in document.items() if key not in {"apiVersion", "kind"}},
    }


def _machine(machine: Machine) -> dict[str, str]:
    facts = {
        "name": machine.name,
        "CPUs": str(machine.online),
        "memory": f"{machine.memory_bytes} bytes",
    }
    for node in machine.nodes:
        facts[f"node {node.id} CPUs"] = str(node.cpus)
        facts[f"node {node.id} memory"] = f"{node.memory_bytes} bytes"
        for pages in node.hugepages:
            facts[f"node {node.id} pages of {human(pages.size_bytes)}"] = str(pages.count)
    for device in machine.devices:
        where = "no node" if device.node is None else f"node {device.node}"
        facts[f"device {device.address}"] = f"{device.kind.value} on {where}"
    return facts


def as_data(found: Differences) -> dict[str, Any]:
    """The differences as plain values, ready for JSON."""
    return {
        "came": list(found.came),
        "went": list(found.went),
        "moved": [_data(change) for change in found.moved],
        "sharedPool": None if found.pool is None else _data(found.pool),
        "config": [_data(change) for change in found.config],
        "machine": [_data(change) for change in found.machine],
    }


def _data(change: Change) -> dict[str, str | None]:
    return {"what": change.what, "before": change.before, "after": change.after}


def as_lines(found: Differences) -> Iterator[str]:
    for name in found.went:
        yield f"- {name}"
    for name in found.came:
        yield f"+ {name}"
    for change in (*found.moved, *((found.pool,) if found.pool else ())):
        yield f"~ {_line(change)}"
    for title, changes in (("config", found.config), ("machine", found.machine)):
        for change in changes:
            yield f"~ {title}: {_line(change)}"
    if found.is_empty:
        yield "no difference"


def _line(change: Change) -> str:
    nothing = "nothing"
    return f"{change.what}: {change.before or nothing} -> {change.after or nothing}"
