"""What must survive the plugin: who holds which CPUs and which memory, in one file.

The file has two copies, each numbered and with a checksum: a crash leaves either all of the old
state or all of the new, and a flipped bit is told and not believed. The accounts of memory follow
from the blocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from numalign.apps.nri.model import Holding, NriState
from numalign.core.errors import CorruptCheckpointError, StartError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.values.sets import format_list, parse_list
from numalign.wire.faults import DECODE_FAULTS

FILE_NAME: Final = "nri_state"
VERSION: Final = 2

_Blocks = list[tuple[list[int], str, int]]  # nodes, type, bytes
_Cpus = dict[str, str]


class _Pod(msgspec.Struct, omit_defaults=True):
    name: str = ""  # namespace/name, for people
    cpus: _Cpus = {}
    memory: dict[str, _Blocks] = {}


class _Body(msgspec.Struct, omit_defaults=True):
    pods: dict[str, _Pod] = {}
    stopped: dict[str, _Pod] = {}


class _Copy(msgspec.Struct):
    version: int
    number: int
    checksum: str
    body: msgspec.Raw


def dump(state: NriState, number: int) -> bytes:
    """The bytes of one copy."""
    cpu, memory = state.host.cpu.entries, state.host.memory.entries
    pods = {
        uid: _packed(state, uid, cpu.get(uid, {}), memory.get(uid, {}))
        for uid in dict.fromkeys((*cpu, *memory))
    }
    stopped = {
        uid: _packed(state, uid, held.cpus, held.memory) for uid, held in state.stopped.items()
    }
    body = msgspec.json.encode(_Body(pods, stopped))
    return msgspec.json.encode(_Copy(VERSION, number, _checksum(number, body), msgspec.Raw(body)))


def _packed(
    state: NriState,
    uid: str,
    cpus: Mapping[str, int],
    memory: Mapping[str, tuple[Block, ...]],
) -> _Pod:
    entry = state.pods.get(uid)
    return _Pod(
        "" if entry is None else f"{entry.namespace}/{entry.name}",
        {name: format_list(mask) for name, mask in cpus.items()},
        {
            name: [(list(block.nodes), block.type, block.size) for block in blocks]
            for name, blocks in memory.items()
        },
    )


@dataclass(frozen=True, slots=True)
class Saved:
    """What the newest good copy tells."""

    host: HostState
    stopped: Mapping[str, Holding]
    number: int
    fault: str = ""  # of the other copy


def load(copies: Iterable[bytes], host: Host, *, path: str = FILE_NAME) -> Saved:
    """The newest of the copies; CorruptCheckpointError if none is good.

    So is a state that does not fit the machine or the host file any more. Where one copy is damaged
    the other one is the state before the last change: what runs by that change is taken over as
    everything else that runs.
    """
    found: list[tuple[int, _Body]] = []
    faults: list[str] = []
    for data in copies:
        try:
            found += [_content(data)] if data else []
        except ValueError as error:
            faults.append(str(error))
    if not found:
        raise CorruptCheckpointError(f"{path}: {'; '.join(faults) or 'the file is empty'}")
    number, body = max(found, key=lambda one: one[0])
    try:
        held = {uid: _unpacked(pod) for uid, pod in body.pods.items()}
        stopped = {uid: _unpacked(pod) for uid, pod in body.stopped.items()}
        return Saved(_state(host, held), stopped, number, "; ".join(faults))
    except (ValueError, StartError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


def _content(data: bytes) -> tuple[int, _Body]:
    """The number and the content of a copy; ValueError if it is damaged."""
    try:
        found = msgspec.json.decode(data, type=_Copy)
        if found.version != VERSION:
            raise ValueError(
                f"found version {found.version}, expected {VERSION}; it was written by another "
                "version of numalign"
            )
        computed = _checksum(found.number, bytes(found.body))
        if computed != found.checksum:
            raise ValueError(
                f"the stored checksum is {found.checksum}, the content gives {computed}"
            )
        return found.number, msgspec.json.decode(found.body, type=_Body)
    except DECODE_FAULTS as error:
        raise ValueError(f"found no state of the plugin ({error})") from error


def _checksum(number: int, body: bytes) -> str:
    return hashlib.sha256(b"%d " % number + body).hexdigest()[:16]


def _unpacked(pod: _Pod) -> Holding:
    return Holding(
        {name: parse_list(text) for name, text in pod.cpus.items()},
        {
            name: tuple(Block(tuple(nodes), kind, size) for nodes, kind, size in blocks)
            for name, blocks in pod.memory.items()
        },
    )


def _state(host: Host, held: Mapping[str, Holding]) -> HostState:
    cpus = {uid: one.cpus for uid, one in held.items() if one.cpus}
    memory = {uid: one.memory for uid, one in held.items() if one.memory}
    used = 0
    for containers in cpus.values():
        own = 0
        for mask in containers.values():
            own |= mask
        if own & used:
            raise ValueError(f"CPUs {format_list(own & used)} belong to two pods")
        used |= own
    cpu = CpuState(host.settings.cpu_policy)
    if host.cpu is not None:
        lost = used & ~(host.cpu.assignable & ~host.cpu.reserved)
        if lost:
            raise ValueError(f"CPUs {format_list(lost)} are held, and reserved or not there")
        cpu = CpuState(cpu.policy, host.cpu.assignable & ~used, cpus)
    blocks = MemoryState(host.settings.memory_policy, {}, memory)
    if host.memory is not None:
        accounts = memory_static.accounts_for(host.memory, blocks)
        blocks = MemoryState(blocks.policy, accounts, memory)
    return hosts.start(host, cpu=cpu, memory=blocks if host.memory is not None else None)


def empty(host: Host) -> HostState:
    """The state of a host on which nothing is held."""
    return hosts.start(host)
