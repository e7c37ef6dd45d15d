"""Where a saved state and the host of today differ, with both values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numalign.core.errors import CorruptCheckpointError
from numalign.core.kubelet.cpu.policy import STRICT, CpuPolicy
from numalign.core.kubelet.host import Host
from numalign.core.kubelet.memory.policy import MemoryPolicy
from numalign.core.kubelet.state import CpuState, MemoryState, MemoryTable
from numalign.core.settings import Settings
from numalign.core.values.sets import format_list, mask_of
from numalign.core.values.sizes import human
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints import state_files

CPU_POLICIES = ("static", "none")
MEMORY_POLICIES = ("Static", "None")


@dataclass(frozen=True, slots=True)
class Difference:
    what: str
    saved: str
    now: str

    @property
    def text(self) -> str:
        """The same as a sentence without its end."""
        return f"{self.what}: {self.saved} at the last start, {self.now} now"


def differences(
    files: Mapping[str, bytes], settings: Settings, host: Host | None
) -> tuple[Difference, ...]:
    """What the files say otherwise than the host; without one only the policies are compared."""
    cpu, memory = saved_cpu(files, settings), saved_memory(files, settings)
    found = []
    if cpu is not None and cpu.policy != settings.cpu_policy:
        found.append(Difference("CPU manager policy", cpu.policy, settings.cpu_policy))
    elif cpu is not None and host is not None and host.cpu is not None:
        found += _cpus(cpu, host.cpu)
    if memory is not None and memory.policy != settings.memory_policy:
        found.append(Difference("memory manager policy", memory.policy, settings.memory_policy))
    elif memory is not None and host is not None and host.memory is not None:
        found += _memory(memory, host.memory)
    return tuple(found)


def saved_cpu(files: Mapping[str, bytes], settings: Settings) -> CpuState | None:
    """What the file says, whatever its policy; None if it is missing or cannot be read."""
    data = files.get(state_files.CPU)
    for policy in CPU_POLICIES if data is not None else ():
        try:
            return cpu_checkpoint.decode(data or b"", replace(settings, cpu_policy=policy))
        except CorruptCheckpointError:
            continue
    return None


def saved_memory(files: Mapping[str, bytes], settings: Settings) -> MemoryState | None:
    """The same for the memory manager."""
    data = files.get(state_files.MEMORY)
    for policy in MEMORY_POLICIES if data is not None else ():
        try:
            return memory_checkpoint.decode(data or b"", replace(settings, memory_policy=policy))
        except CorruptCheckpointError:
            continue
    return None


def _cpus(saved: CpuState, now: CpuPolicy) -> Iterator[Difference]:
    known = saved.shared
    for sets in (*saved.entries.values(), saved.pod_sets):
        for cpus in sets.values():
            known |= cpus
    if known and known != now.assignable:
        yield Difference("CPUs", format_list(known), format_list(now.assignable))
    if not saved.shared:
        return
    is_strict = STRICT in now.options
    wrong = now.reserved & (saved.shared if is_strict else known & ~saved.shared)
    if wrong:
        before = "in the shared pool" if is_strict else "owned by containers"
        today = "strictly reserved" if is_strict else "reserved"
        text = format_list(wrong)
        yield Difference("reserved CPUs", f"{text} {before}", f"{text} {today}")


def _memory(saved: MemoryState, now: MemoryPolicy) -> Iterator[Difference]:
    if not saved.machine:
        return
    if set(saved.machine) != set(now.empty):
        texts = [format_list(mask_of(nodes)) for nodes in (saved.machine, now.empty)]
        yield Difference("NUMA nodes", *texts)
    for node in sorted(set(saved.machine) & set(now.empty)):
        before_tables, tables = saved.machine[node].tables, now.empty[node].tables
        for kind in sorted(set(before_tables) | set(tables)):
            where = f"{kind} of NUMA node {node}"
            yield from _table(where, before_tables.get(kind), tables.get(kind))


def _table(where: str, saved: MemoryTable | None, now: MemoryTable | None) -> Iterator[Difference]:
    if saved is None or now is None:
        yield Difference(where, *("none" if t is None else human(t.total) for t in (saved, now)))
        return
    for name, before, today in (
        ("total", saved.total, now.total),
        ("reserved", saved.system_reserved, now.system_reserved),
    ):
        if before != today:
            yield Difference(f"{where}, {name}", *_both(before, today))


def _both(before: int, today: int) -> tuple[str, str]:
    """Two amounts in words, in bytes where the words would be the same."""
    short = human(before), human(today)
    return short if short[0] != short[1] else (f"{before} bytes", f"{today} bytes")
