"""A Machine from our own form, with a message that names the field where it makes no sense."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import (
    Cache,
    CacheKind,
    Cpu,
    DeviceKind,
    HugePages,
    Machine,
    MemoryPath,
    NumaNode,
    PciDevice,
    cache_order,
    validate,
)
from numalign.core.machine.pci_class import TYPICAL_CLASS, device_kind
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import ID_MAX, CpuSet, bits, format_list, parse_list
from numalign.wire.machine.form import (
    API_VERSION,
    KIND,
    CacheForm,
    DeviceForm,
    MachineForm,
    NodeForm,
    SocketForm,
    Text,
)
from numalign.wire.machine.writing import places

_RUN: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?", re.ASCII)
_CODE: Final = re.compile(r"0x[0-9a-fA-F]{1,6}", re.ASCII)
CPUS_MAX: Final = 16_384  # Linux is built for 8,192
THREADS_MAX: Final = 256  # of a core
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


def machine_of(form: MachineForm, source: str) -> Machine:
    """The machine that a form describes; DiscoveryError where it is impossible."""
    return _Reader(source).machine(form)


class _Reader:
    """Turns the parts of one form into those of a Machine; only keeps the name for messages."""

    def __init__(self, source: str) -> None:
        self._source = source

    def machine(self, form: MachineForm) -> Machine:
        if (form.api_version, form.kind) != (API_VERSION, KIND):
            raise self._wrong(
                "apiVersion and kind", f"{form.api_version}, {form.kind}", API_VERSION
            )
        nodes = tuple(sorted(map(self._node, form.nodes), key=lambda node: node.id))
        node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
        cpus = [cpu for socket in form.sockets for cpu in self._cpus(socket, node_of)]
        if len(cpus) > CPUS_MAX:
            raise self._wrong("sockets", f"{len(cpus)} CPUs", f"at most {CPUS_MAX}")
        total = sum(node.memory_bytes for node in nodes)
        bare = Machine(
            name=form.name or self._source,
            nodes=nodes,
            cpus=tuple(sorted(cpus, key=lambda cpu: cpu.id)),
            memory_bytes=total if form.memory is None else self._amount("memory", form.memory),
            devices=tuple(map(self._device, form.devices)),
            memory_paths=tuple(
                MemoryPath(
                    path.initiator,
                    path.target,
                    path.read_latency,
                    path.write_latency,
                    path.read_bandwidth,
                    path.write_bandwidth,
                )
                for path in form.memory_paths
            ),
            offline=self._set("offline", form.offline),
            notes=tuple(form.notes),
        )
        self._check_placed(validate(bare))
        return replace(bare, caches=self._caches(form.caches, bare))

    def _check_placed(self, machine: Machine) -> None:
        for node in machine.nodes:
            missing = node.cpus - machine.online
            if missing:
                raise self._wrong(f"nodes {node.id} cpus", str(missing), "CPUs of some socket")
        for device in machine.devices:
            if device.node is not None and device.node not in machine.node_set:
                raise self._wrong(f"devices {device.address} node", str(device.node), "a node")

    def _node(self, form: NodeForm) -> NumaNode:
        where = f"nodes {form.id}"
        pages = [
            HugePages(self._amount(f"{where} hugepages", size), count)
            for size, count in form.hugepages.items()
        ]
        return NumaNode(
            id=form.id,
            cpus=self._set(f"{where} cpus", form.cpus),
            memory_bytes=self._amount(f"{where} memory", form.memory),
            hugepages=tuple(sorted(pages, key=lambda page: page.size_bytes)),
            distances=None if form.distances is None else tuple(form.distances),
        )

    def _cpus(self, form: SocketForm, node_of: dict[int, int]) -> list[Cpu]:
        where = f"sockets {form.id}"
        cores = self._sets(f"{where} cores", form.cores)
        ids = self._ids(f"{where} coreIds", form.core_ids, len(cores))
        dies = self._places(f"{where} dies", form.dies)
        clusters = self._places(f"{where} clusters", form.clusters)
        widest = max((len(core) for core in cores), default=0)
        if widest > THREADS_MAX:
            raise self._wrong(
                f"{where} cores", f"a core of {widest} CPUs", f"at most {THREADS_MAX}"
            )
        return [
            Cpu(
                id=cpu,
                node=node_of.get(cpu),
                socket=form.id,
                core=first,
                core_id=place if ids is None else ids[place],
                die=dies.get(cpu),
                cluster=clusters.get(cpu),
            )
            for place, core in enumerate(cores)
            for first in [min(core)]
            for cpu in core
        ]

    def _caches(self, forms: list[CacheForm], machine: Machine) -> tuple[Cache, ...]:
        named = places(machine)
        caches = []
        for form in forms:
            where = f"caches of level {form.level}"
            if (form.per is None) == (form.cpus is None):
                raise self._wrong(where, "per and cpus, or none of them", "one of them")
            sets = named[form.per] if form.per else self._sets(f"{where} cpus", form.cpus or "")
            ids = self._ids(f"{where} ids", form.ids, len(sets))
            size = self._amount(f"{where} size", form.size)
            caches += [
                Cache(form.level, CacheKind(form.type), size, cpus, ids[i] if ids else None)
                for i, cpus in enumerate(sets)
            ]
        return tuple(sorted(caches, key=cache_order))

    def _device(self, form: DeviceForm) -> PciDevice:
        where = f"devices {form.address}"
        if not _ADDRESS.fullmatch(form.address):
            raise self._wrong("devices address", form.address, "one such as 0000:3b:00.0")
        known = None if form.class_code is None else self._code(f"{where} class", form.class_code)
        kind = form.kind or (DeviceKind.OTHER if known is None else device_kind(known))
        return PciDevice(
            address=form.address,
            kind=kind,
            class_code=TYPICAL_CLASS[kind] if known is None else known,
            vendor_id=self._code(f"{where} vendor", form.vendor),
            device_id=self._code(f"{where} device", form.device),
            node=form.node,
            name=form.name,
            virtual_function=form.virtual_function,
        )

    def _set(self, where: str, text: Text) -> CpuSet:
        try:
            return CpuSet(parse_list(str(text)))
        except ValueError as exc:
            raise self._wrong(where, f"{str(text)!r} ({exc})", "CPUs such as 0-3,8") from exc

    def _sets(self, where: str, text: Text) -> list[CpuSet]:
        parts = str(text).split()
        if len(parts) > CPUS_MAX:
            raise self._wrong(where, f"{len(parts)} sets", f"at most {CPUS_MAX}")
        sets = [self._set(where, part) for part in parts]
        seen = 0
        for cpus in sets:
            if not cpus or (cpus.mask & seen and where.endswith("cores")):
                raise self._wrong(where, str(cpus) or "an empty set", "each CPU once")
            seen |= cpus.mask
        return sets

    def _places(self, where: str, forms: dict[int, Text]) -> dict[int, int]:
        found: dict[int, int] = {}
        seen = 0
        for number, text in forms.items():
            mask = self._set(f"{where} {number}", text).mask
            if mask & seen:
                raise self._wrong(f"{where} {number}", format_list(mask & seen), "each CPU once")
            seen |= mask
            found |= dict.fromkeys(bits(mask), number)
        return found

    def _ids(self, where: str, text: Text | None, count: int) -> list[int] | None:
        if text is None:
            return None
        numbers: list[int] = []
        for part in str(text).split():
            match = _RUN.fullmatch(part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not first <= last <= first + ID_MAX:
                raise self._wrong(where, repr(part), "numbers such as 0-3 8")
            numbers += range(first, last + 1)
            if len(numbers) > count:
                break
        if len(numbers) != count:
            raise self._wrong(where, f"{len(numbers)} numbers", f"{count}, one for each set")
        return numbers

    def _amount(self, where: str, text: Text) -> int:
        try:
            return Quantity.parse(str(text)).value()
        except ValueError as exc:
            raise self._wrong(where, f"{str(text)!r} ({exc})", "a quantity such as 96Gi") from exc

    def _code(self, where: str, text: Text) -> int:
        if isinstance(text, int) and 0 <= text <= 0xFFFFFF:
            return text
        if _CODE.fullmatch(str(text)):
            return int(str(text), 16)
        raise self._wrong(where, repr(text), "a number such as 0x8086")

    def _wrong(self, where: str, found: str, expected: str) -> DiscoveryError:
        return DiscoveryError(f"{self._source}: {where}", found, expected)
