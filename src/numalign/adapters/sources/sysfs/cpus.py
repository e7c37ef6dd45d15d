"""CPUs, cores and sockets, from ``sys/devices/system/cpu/cpu*/topology``.

Kernels differ: names of files changed in 5.3 (``core_cpus`` was ``thread_siblings``), old ones
have only bitmaps, and ARM and POWER give -1 where they do not know. What the kernel does not
number we number ourselves, and note it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.adapters.sources.sysfs.text import SysfsText
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import Cpu
from numalign.core.values.sets import ID_MAX, CpuSet, bits, mask_of

CPU_ROOT: Final = "sys/devices/system/cpu"
_CPU_NAME: Final = re.compile(r"cpu(0|[1-9][0-9]{0,5})", re.ASCII)
_UNKNOWN_CLUSTER: Final = 0xFFFF  # what x86 gives for a cluster that it does not know
# Maps before lists: they are as old as sysfs, and cAdvisor and hwloc read them too.
_THREADS: Final = ("core_cpus", "thread_siblings", "core_cpus_list", "thread_siblings_list")
_PACKAGE: Final = ("package_cpus", "core_siblings", "package_cpus_list", "core_siblings_list")


@dataclass(frozen=True, slots=True)
class Presence:
    online: CpuSet
    offline: CpuSet


@dataclass(frozen=True, slots=True)
class Topology:
    """What the kernel says of one CPU; None where it says nothing."""

    cpu: int
    threads: int | None
    package: int | None
    die: int | None
    cluster: int | None
    core_id: int | None

    @property
    def says_nothing(self) -> bool:
        return self.threads is None and self.package is None and self.core_id is None


def read_presence(text: SysfsText) -> Presence:
    """The CPUs that are online, and those that are built in but not."""
    listed = mask_of(_cpu_ids(text))
    if not listed:
        raise DiscoveryError(
            text.tree.source,
            f"no CPU in {CPU_ROOT}",
            "the directories of sysfs",
            "Name a directory that holds sys/, or an archive made of one.",
        )
    online = text.mask(f"{CPU_ROOT}/online")
    if online is None:
        online = mask_of(
            cpu for cpu in bits(listed) if text.words(f"{CPU_ROOT}/cpu{cpu}/online") != "0"
        )
    for cpu in bits(online & ~listed):
        text.notes.about_cpu(cpu, "online but without a directory; left out")
    present = text.mask(f"{CPU_ROOT}/present")
    built_in = listed if present is None else present
    return Presence(CpuSet(online & listed), CpuSet(built_in & ~online))


def _cpu_ids(text: SysfsText) -> Iterable[int]:
    for name in text.tree.names(CPU_ROOT):
        match = _CPU_NAME.fullmatch(name)
        if match and int(match[1]) <= ID_MAX:
            yield int(match[1])


def read_topologies(text: SysfsText, online: CpuSet) -> list[Topology]:
    """What the kernel says of each online CPU that can be used."""
    topologies = [_read_topology(text, cpu) for cpu in online]
    known = [topology for topology in topologies if not topology.says_nothing]
    if not known:
        text.notes.add("the kernel shows no topology: each CPU is taken as a core of one socket")
        return topologies
    for topology in topologies if len(known) < len(topologies) else ():
        if topology.says_nothing:
            text.notes.about_cpu(topology.cpu, "without a topology; left out, as the kubelet does")
    return known


def cpus_of(
    text: SysfsText, topologies: list[Topology], node_of: Mapping[int, int]
) -> tuple[Cpu, ...]:
    sockets = _sockets(text, topologies)
    by_cpu = {topology.cpu: topology for topology in topologies}
    lead = {}
    for mask in _cores(text, topologies, node_of):
        first = by_cpu[next(bits(mask))]
        lead.update(dict.fromkeys(bits(mask), first))
    return tuple(
        _cpu(own.cpu, lead[own.cpu], sockets[lead[own.cpu].cpu], node_of.get(own.cpu))
        for own in topologies
    )


def _read_topology(text: SysfsText, cpu: int) -> Topology:
    base = f"{CPU_ROOT}/cpu{cpu}/topology"
    cluster = _id(text, f"{base}/cluster_id")
    return Topology(
        cpu=cpu,
        threads=text.mask(*(f"{base}/{name}" for name in _THREADS)),
        package=_id(text, f"{base}/physical_package_id"),
        die=_id(text, f"{base}/die_id"),
        cluster=None if cluster == _UNKNOWN_CLUSTER else cluster,
        core_id=_id(text, f"{base}/core_id"),
    )


def _id(text: SysfsText, path: str) -> int | None:
    number = text.number(path)
    return None if number is None or number < 0 else number


def _cpu(cpu: int, lead: Topology, socket: int, node: int | None) -> Cpu:
    # A core has one socket, die, cluster and core id: those of its first thread stand for all.
    return Cpu(
        id=cpu,
        node=node,
        socket=socket,
        core=lead.cpu,
        core_id=lead.cpu if lead.core_id is None else lead.core_id,
        die=lead.die,
        cluster=lead.cluster,
    )


def _cores(
    text: SysfsText, topologies: list[Topology], node_of: Mapping[int, int]
) -> Iterable[int]:
    """The CPUs of each core.

    Threads that name each other and have one core id are a core. Where the names and the ids
    contradict each other (AMD's Bulldozer named pairs of cores so) the ids decide, as they do
    in the kubelet and in hwloc. Without names the core ids of one NUMA node tell.
    """
    usable = mask_of(own.cpu for own in topologies)
    groups: dict[tuple[int | None, ...], int] = {}
    for own in topologies:
        threads = None if own.threads is None else own.threads & usable | 1 << own.cpu
        node = node_of.get(own.cpu) if threads is None else None
        alone = own.cpu if threads is None and own.core_id is None else None
        key = (threads, own.package, own.die, own.core_id, node, alone)
        groups[key] = groups.get(key, 0) | 1 << own.cpu
    for (named, *_), mask in groups.items():
        if named is not None and named != mask:
            for cpu in bits(mask):
                text.notes.about_cpu(
                    cpu, "threads of one core by name but not by core id; taken as several cores"
                )
    return groups.values()


def _sockets(text: SysfsText, topologies: list[Topology]) -> dict[int, int]:
    """The socket of each CPU; those without a package id are numbered by who shares a package."""
    sockets = {own.cpu: own.package for own in topologies if own.package is not None}
    next_id = max(sockets.values(), default=-1) + 1
    numbers: dict[int | None, int] = {}
    for own in topologies:
        if own.package is not None:
            continue
        text.notes.about_cpu(own.cpu, "without a package id; sockets numbered by shared packages")
        base = f"{CPU_ROOT}/cpu{own.cpu}/topology"
        shared = text.mask(*(f"{base}/{name}" for name in _PACKAGE))
        sockets[own.cpu] = numbers.setdefault(shared, next_id + len(numbers))
    return sockets
