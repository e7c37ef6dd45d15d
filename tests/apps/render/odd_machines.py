"""Machines that nobody would build, for properties that must hold on every machine.

Holes in the numbers, caches over several nodes, nodes over several sockets, CPUs on no node,
no memory, no distances, names that would break a page or a terminal.
"""

from __future__ import annotations

from hypothesis import strategies as st

from numalign.core.machine.machine import (
    Cache,
    CacheKind,
    Cpu,
    DeviceKind,
    HugePages,
    Machine,
    NumaNode,
    PciDevice,
    validate,
)
from numalign.core.values.sets import CpuSet

NAMES = st.one_of(
    st.sampled_from(["", "eth0", "<script>&\"'", "]]>", "\x1b[31mred", "a" * 300, "ключ\u0000"]),
    st.text(max_size=20),
)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A valid machine of up to some dozens of CPUs."""
    ids = draw(st.lists(st.integers(0, 400), min_size=1, max_size=40, unique=True))
    node_ids = sorted(draw(st.sets(st.integers(0, 70), min_size=1, max_size=12)))
    cpus = _cpus(draw, sorted(ids), node_ids)
    nodes = tuple(_node(draw, number, cpus, len(node_ids)) for number in node_ids)
    return validate(
        Machine(
            name=draw(NAMES),
            nodes=nodes,
            cpus=cpus,
            memory_bytes=draw(st.integers(0, 1 << 45)),
            caches=_caches(draw, cpus),
            devices=_devices(draw, node_ids),
            offline=CpuSet.of(draw(st.sets(st.integers(401, 500), max_size=9))),
            notes=tuple(draw(st.lists(NAMES, max_size=3))),
        )
    )


def _cpus(draw: st.DrawFn, ids: list[int], node_ids: list[int]) -> tuple[Cpu, ...]:
    threads = draw(st.integers(1, 4))
    sockets = draw(st.integers(1, 4))
    dies = draw(st.sampled_from([None, 1, 2]))
    cores = [ids[i : i + threads] for i in range(0, len(ids), threads)]
    placed = []
    for i, core in enumerate(cores):
        node = draw(st.sampled_from([*node_ids, None]))
        die = None if dies is None else i % dies
        placed += [Cpu(cpu, node, i % sockets, core[0], i, die) for cpu in core]
    return tuple(sorted(placed, key=lambda cpu: cpu.id))


def _node(draw: st.DrawFn, number: int, cpus: tuple[Cpu, ...], count: int) -> NumaNode:
    sizes = draw(st.sets(st.sampled_from([2 << 20, 512 << 20, 1 << 30]), max_size=3))
    row = st.lists(st.integers(10, 255), min_size=count, max_size=count)
    return NumaNode(
        number,
        CpuSet.of(cpu.id for cpu in cpus if cpu.node == number),
        draw(st.one_of(st.just(0), st.integers(1, 1 << 42))),
        tuple(HugePages(size, draw(st.integers(0, 5000))) for size in sorted(sizes)),
        draw(st.one_of(st.none(), row.map(tuple))),
    )


def _caches(draw: st.DrawFn, cpus: tuple[Cpu, ...]) -> tuple[Cache, ...]:
    ids = [cpu.id for cpu in cpus]
    step = draw(st.integers(0, 17))
    if step == 0:
        return ()
    level = draw(st.sampled_from([2, 3, 4]))
    return tuple(
        Cache(level, CacheKind.UNIFIED, draw(st.integers(0, 1 << 30)), CpuSet.of(part), None)
        for part in (ids[i : i + step] for i in range(0, len(ids), step))
    )


def _devices(draw: st.DrawFn, node_ids: list[int]) -> tuple[PciDevice, ...]:
    return tuple(
        PciDevice(
            address=f"0000:{i:02x}:00.0",
            kind=draw(st.sampled_from(list(DeviceKind))),
            class_code=0x020000,
            vendor_id=0x8086,
            device_id=i,
            node=draw(st.sampled_from([*node_ids, None])),
            name=draw(NAMES),
            virtual_function=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 12)))
    )
