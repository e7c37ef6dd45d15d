"""Our own form of a machine, as short as it can be without a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from numalign.core.machine.machine import Cache, Cpu, Machine, MemoryPath, NumaNode, PciDevice
from numalign.core.values.sets import CpuSet, format_list
from numalign.wire.machine import form

_PLACES: Final[tuple[form.Place, ...]] = ("core", "cpu", "node", "die", "socket")
_BINARY_UNITS: Final = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))


def form_of(machine: Machine) -> form.MachineForm:
    """The form that reads back as the same machine."""
    memory = sum(node.memory_bytes for node in machine.nodes)
    return form.MachineForm(
        api_version=form.API_VERSION,
        kind=form.KIND,
        name=machine.name,
        memory=None if machine.memory_bytes == memory else amount(machine.memory_bytes),
        sockets=[_socket(machine, socket) for socket in machine.sockets],
        nodes=[_node(node) for node in machine.nodes],
        caches=_caches(machine),
        devices=[_device(device) for device in machine.devices],
        memory_paths=[_path(path) for path in machine.memory_paths],
        offline=str(machine.offline),
        notes=list(machine.notes),
    )


def amount(size_bytes: int) -> form.Text:
    """A number of bytes as the shortest exact quantity."""
    for shift, unit in _BINARY_UNITS:
        if size_bytes and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift}{unit}"
    return size_bytes


def runs(numbers: Iterable[int]) -> str:
    """Numbers in their order, with rising runs joined: ``0-3 8 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return " ".join("-".join(map(str, part)) for part in parts)


def _node(node: NumaNode) -> form.NodeForm:
    return form.NodeForm(
        id=node.id,
        cpus=str(node.cpus),
        memory=amount(node.memory_bytes),
        hugepages={str(amount(pages.size_bytes)): pages.count for pages in node.hugepages},
        distances=None if node.distances is None else list(node.distances),
    )


def _socket(machine: Machine, socket: int) -> form.SocketForm:
    cpus = [cpu for cpu in machine.cpus if cpu.socket == socket]
    leads = [cpu for cpu in cpus if cpu.core == cpu.id]
    core_ids = [cpu.core_id for cpu in leads]
    return form.SocketForm(
        id=socket,
        cores=" ".join(str(machine.cores[cpu.core]) for cpu in leads),
        core_ids=None if core_ids == list(range(len(leads))) else runs(core_ids),
        dies=_parts(cpus, lambda cpu: cpu.die),
        clusters=_parts(cpus, lambda cpu: cpu.cluster),
    )


def _parts(cpus: list[Cpu], part: Callable[[Cpu], int | None]) -> dict[int, form.Text]:
    masks: dict[int, int] = {}
    for cpu in cpus:
        number = part(cpu)
        if number is not None:
            masks[number] = masks.get(number, 0) | 1 << cpu.id
    return {number: format_list(masks[number]) for number in sorted(masks)}


def places(machine: Machine) -> Mapping[form.Place, list[CpuSet]]:
    """The sets that "per core" and the like stand for, in the order of their lowest CPUs."""
    return {
        "cpu": [CpuSet(1 << cpu.id) for cpu in machine.cpus],
        "core": list(machine.cores.values()),
        "die": _by_lowest(machine.dies.values()),
        "node": _by_lowest(node.cpus for node in machine.nodes if node.cpus),
        "socket": _by_lowest(machine.sockets.values()),
    }


def _by_lowest(sets: Iterable[CpuSet]) -> list[CpuSet]:
    return sorted(sets, key=lambda cpus: cpus.mask & -cpus.mask)


def _caches(machine: Machine) -> list[form.CacheForm]:
    groups: dict[tuple[int, str, int, bool], list[Cache]] = {}
    for cache in machine.caches:
        key = (cache.level, cache.kind.value, cache.size_bytes, cache.id is None)
        groups.setdefault(key, []).append(cache)
    named = places(machine)
    return [_cache_group(group, named) for group in groups.values()]


def _cache_group(group: list[Cache], named: Mapping[form.Place, list[CpuSet]]) -> form.CacheForm:
    sets = [cache.cpus for cache in group]
    per = next((place for place in _PLACES if named[place] == sets), None)
    ids = [cache.id for cache in group if cache.id is not None]
    return form.CacheForm(
        level=group[0].level,
        type=group[0].kind.value,
        size=amount(group[0].size_bytes),
        per=per,
        cpus=None if per else " ".join(map(str, sets)),
        ids=runs(ids) if ids else None,
    )


def _device(device: PciDevice) -> form.DeviceForm:
    return form.DeviceForm(
        address=device.address,
        kind=device.kind,
        class_code=f"0x{device.class_code:06x}",
        vendor=f"0x{device.vendor_id:04x}",
        device=f"0x{device.device_id:04x}",
        node=device.node,
        name=device.name,
        virtual_function=device.virtual_function,
    )


def _path(path: MemoryPath) -> form.PathForm:
    return form.PathForm(
        path.initiator,
        path.target,
        path.read_latency_ns,
        path.write_latency_ns,
        path.read_bandwidth_mib_s,
        path.write_bandwidth_mib_s,
    )
