"""What the agent itself must remember over a restart: its pods, beside the kubelet's three files.

What device plugins answered is not here: the kubelet's own file of devices keeps it.

The file carries a checksum like the others, so that a flipped bit is told and not believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from numalign.apps.agent.model import AgentPod, ContainerStatus, Phase, Run
from numalign.apps.agent.starting import refusals
from numalign.core.asker import Asker
from numalign.core.errors import CorruptCheckpointError
from numalign.wire.checkpoints import state_files
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord

FILE_NAME: Final = "pods.json"
STATE_FILES: Final = (*state_files.PLACES.values(), FILE_NAME, refusals.FILE_NAME)
VERSION: Final = 1


class _Pod(msgspec.Struct, omit_defaults=True):
    uid: str
    record: PodRecord
    source: str
    created_at: float
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    deleting: bool = False
    containers: dict[str, ContainerStatus] = {}
    awaited: list[tuple[str, str]] = []  # container, resource
    again: bool = False
    run: Run | None = None
    asker: Asker | None = None


class _File(msgspec.Struct):
    version: int
    checksum: str
    pods: msgspec.Raw


def dump(pods: Mapping[str, AgentPod]) -> bytes:
    """The bytes of the file."""
    body = msgspec.json.encode([_packed(uid, pod) for uid, pod in pods.items()])
    return msgspec.json.encode(_File(VERSION, _checksum(body), msgspec.Raw(body)))


def load(data: bytes, *, path: str = FILE_NAME) -> dict[str, AgentPod]:
    """The pods in a file; CorruptCheckpointError if it is not what was written."""
    try:
        found = msgspec.json.decode(data, type=_File)
        if found.version != VERSION:
            raise CorruptCheckpointError(
                f"{path}: found version {found.version}, expected {VERSION}; "
                "it was written by another version of numalign"
            )
        computed = _checksum(bytes(found.pods))
        if computed != found.checksum:
            raise CorruptCheckpointError(
                f"{path}: the stored checksum is {found.checksum}, the content gives {computed}. "
                "See `numalign state check`."
            )
        pods = msgspec.json.decode(found.pods, type=list[_Pod])
    except msgspec.DecodeError as error:
        raise CorruptCheckpointError(
            f"{path}: found no list of pods ({error}). See `numalign state check`."
        ) from error
    return {pod.uid: _unpacked(pod) for pod in pods}


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def _packed(uid: str, pod: AgentPod) -> _Pod:
    return _Pod(
        uid,
        pod.record,
        pod.source,
        pod.created_at,
        pod.phase,
        pod.reason,
        pod.message,
        pod.started_at,
        pod.deleting,
        dict(pod.containers),
        sorted(pod.awaited),
        pod.again,
        pod.run and replace(pod.run, request=None, is_explained=True),
        pod.asker,
    )


def _unpacked(p: _Pod) -> AgentPod:
    return AgentPod(
        p.record,
        core_pod(p.record, uid=p.uid),
        p.source,
        p.created_at,
        p.phase,
        p.reason,
        p.message,
        p.started_at,
        p.deleting,
        p.again,
        p.containers,
        frozenset(p.awaited),
        run=p.run,
        asker=p.asker,
    )
