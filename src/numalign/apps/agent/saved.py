"""What the agent itself must remember over a restart: its pods, beside the kubelet's three files.

What device plugins answered is not here: the kubelet's own file of devices keeps it.

The file carries a checksum like the others, so that a flipped bit is told and not believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from numalign.apps.agent.model import (
    SAVED_UNUSABLE,
    AgentPod,
    ContainerStatus,
    Phase,
    Run,
    Successor,
)
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.steps.failures import nameplate
from numalign.core.asker import Asker
from numalign.core.errors import CorruptCheckpointError, NumalignError, unexpected
from numalign.wire.checkpoints import state_files
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord

FILE_NAME: Final = "pods.json"
ASIDE_NAME: Final = "pods.set-aside.json"  # what could not be taken up at a start
STATE_FILES: Final = (
    *state_files.PLACES.values(),
    FILE_NAME,
    ASIDE_NAME,
    refusals.FILE_NAME,
)
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
    again: bool = False  # as older versions wrote it: begins anew just as it was
    run: Run | None = None
    asker: Asker | None = None
    successor: Successor | None = None


class _File(msgspec.Struct):
    version: int
    checksum: str
    pods: msgspec.Raw


def dump(pods: Mapping[str, AgentPod]) -> bytes:
    """The bytes of the file."""
    body = msgspec.json.encode([_packed(uid, pod) for uid, pod in pods.items()])
    return msgspec.json.encode(_File(VERSION, checksum(body), msgspec.Raw(body)))


def load(data: bytes, *, path: str = FILE_NAME) -> dict[str, AgentPod]:
    """The pods in a file; CorruptCheckpointError if it is not what was written."""
    try:
        found = msgspec.json.decode(data, type=_File)
        if found.version != VERSION:
            raise CorruptCheckpointError(
                f"{path}: found version {found.version}, expected {VERSION}; "
                "it was written by another version of numalign"
            )
        computed = checksum(bytes(found.pods))
        if computed != found.checksum:
            raise CorruptCheckpointError(
                f"{path}: the stored checksum is {found.checksum}, the content gives {computed}. "
                "See `numalign state check`."
            )
        pods = msgspec.json.decode(found.pods, type=list[msgspec.Raw])
    except DECODE_FAULTS as error:
        raise CorruptCheckpointError(
            f"{path}: found no list of pods ({error}). See `numalign state check`."
        ) from error
    return {uid: pod for uid, (pod, _) in _each(pods).items()}


def unusable(data: bytes) -> bytes | None:
    """What the file has of pods that cannot be taken up, as it is; None if all can be."""
    found = msgspec.json.decode(msgspec.json.decode(data, type=_File).pods, type=list[msgspec.Raw])
    bad = [raw for _, raw in _each(found).values() if raw is not None]
    return msgspec.json.encode(bad) if bad else None


def _each(raws: list[msgspec.Raw]) -> dict[str, tuple[AgentPod, msgspec.Raw | None]]:
    """Every pod by its uid, with what the file has of it where that cannot be used."""
    found: dict[str, tuple[AgentPod, msgspec.Raw | None]] = {}
    for number, raw in enumerate(raws):
        try:
            pod = _unpacked(msgspec.json.decode(raw, type=_Pod))
            found[pod.pod.uid] = pod, None
        except Exception as error:
            pod = _set_aside(raw, number, error)
            found[pod.pod.uid] = pod, raw
    return found


def _set_aside(raw: msgspec.Raw, number: int, error: Exception) -> AgentPod:
    """A pod of which no more than the name can be used: it has failed."""
    plain = _map(raw)
    uid = plain.get("uid")
    uid = uid if isinstance(uid, str) and uid else f"unusable-{number}"
    names = _map(_map(plain.get("record")).get("metadata"))
    record, pod = nameplate(uid, names.get("namespace"), names.get("name"))
    text = str(error) if isinstance(error, (NumalignError, *DECODE_FAULTS)) else unexpected(error)
    return AgentPod(
        record,
        pod,
        str(plain.get("source", "")),
        0.0,
        phase=Phase.FAILED,
        reason=SAVED_UNUSABLE,
        message=f"what was saved of it cannot be used ({text}), so it was ended; {ASIDE_NAME} has "
        "it. Delete the pod and apply its manifest again.",
    )


def _map(found: object) -> dict[str, Any]:
    """A map in plain values or in JSON; an empty one for anything else."""
    with suppress(*DECODE_FAULTS):
        found = msgspec.json.decode(found) if isinstance(found, msgspec.Raw) else found
    return found if isinstance(found, dict) else {}


def checksum(body: bytes) -> str:
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
        run=pod.run and replace(pod.run, request=None, is_explained=True),
        asker=pod.asker,
        successor=pod.successor,
    )


def _unpacked(p: _Pod) -> AgentPod:
    pod = core_pod(p.record, uid=p.uid)
    names = {container.name for container in pod.in_order}
    if names != p.containers.keys():
        raise CorruptCheckpointError(
            f"found the state of {sorted(p.containers)}, expected that of {sorted(names)}"
        )
    return AgentPod(
        p.record,
        pod,
        p.source,
        p.created_at,
        p.phase,
        p.reason,
        p.message,
        p.started_at,
        p.deleting,
        p.successor or (Successor(p.record, p.source, p.asker) if p.again else None),
        p.containers,
        frozenset(p.awaited),
        record_bytes=len(msgspec.json.encode(p.record)),
        run=p.run,
        asker=p.asker,
    )
