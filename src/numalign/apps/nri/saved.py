"""What must survive the plugin: who holds which CPUs and which memory, in one file.

One file, so that a crash leaves either all of the old state or all of the new. It carries a
checksum: a flipped bit is told and not believed. The accounts of memory follow from the blocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
VERSION: Final = 1

_Blocks = list[tuple[list[int], str, int]]  # nodes, type, bytes
_Cpus = dict[str, str]


class _Pod(msgspec.Struct, omit_defaults=True):
    name: str = ""  # namespace/name, for people
    cpus: _Cpus = {}
    memory: dict[str, _Blocks] = {}


class _Body(msgspec.Struct, omit_defaults=True):
    pods: dict[str, _Pod] = {}
    stopped: dict[str, _Pod] = {}


class _File(msgspec.Struct):
    version: int
    checksum: str
    body: msgspec.Raw


def dump(state: NriState) -> bytes:
    """The bytes of the file."""
    cpu, memory = state.host.cpu.entries, state.host.memory.entries
    pods = {
        uid: _packed(state, uid, cpu.get(uid, {}), memory.get(uid, {}))
        for uid in dict.fromkeys((*cpu, *memory))
    }
    stopped = {
        uid: _packed(state, uid, held.cpus, held.memory) for uid, held in state.stopped.items()
    }
    body = msgspec.json.encode(_Body(pods, stopped))
    return msgspec.json.encode(_File(VERSION, _checksum(body), msgspec.Raw(body)))


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


def load(data: bytes, host: Host, *, path: str = FILE_NAME) -> tuple[HostState, dict[str, Holding]]:
    """What was held, and what pods had that stopped; CorruptCheckpointError if it is no state.

    So is a state that does not fit the machine or the host file any more.
    """
    body = _body(data, path)
    try:
        held = {uid: _unpacked(pod) for uid, pod in body.pods.items()}
        stopped = {uid: _unpacked(pod) for uid, pod in body.stopped.items()}
        return _state(host, held), stopped
    except (ValueError, StartError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


def _body(data: bytes, path: str) -> _Body:
    try:
        found = msgspec.json.decode(data, type=_File)
        if found.version != VERSION:
            raise CorruptCheckpointError(
                f"{path}: found version {found.version}, expected {VERSION}; it was written by "
                "another version of numalign"
            )
        computed = _checksum(bytes(found.body))
        if computed != found.checksum:
            raise CorruptCheckpointError(
                f"{path}: the stored checksum is {found.checksum}, the content gives {computed}"
            )
        return msgspec.json.decode(found.body, type=_Body)
    except DECODE_FAULTS as error:
        raise CorruptCheckpointError(f"{path}: found no state of the plugin ({error})") from error


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


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
