"""What numalign has left on objects of others, and the changes that take it off."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from numalign.core.cluster.refused_pods import GATE as REDEPLOY_GATE
from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE

OUR_GATES: Final = frozenset({PRE_PLACE_GATE, REDEPLOY_GATE})


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - as the API has it


class _Spec(msgspec.Struct):
    schedulingGates: list[dict[str, Any]] | None = None  # noqa: N815 - as the API has it


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class OpenedGates(msgspec.Struct, frozen=True):
    """A pod that waits for us, and the merge patch after which it does not."""

    namespace: str
    name: str
    gates: tuple[str, ...]
    patch: dict[str, Any]


def opened_gates(data: bytes | msgspec.Raw) -> OpenedGates | None:
    """The change to a v1.Pod that takes off all gates of ours; None if it has none."""
    try:
        pod = msgspec.json.decode(data, type=_Pod)
    except DECODE_FAULTS as error:
        raise WireError(f"found no v1.Pod: {error}") from error
    gates = pod.spec.schedulingGates or []
    left = [gate for gate in gates if gate.get("name") not in OUR_GATES]
    if len(left) == len(gates):
        return None
    meta = pod.metadata
    # With what was read: a gate that somebody takes off or adds meanwhile is not lost.
    head = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    ours = tuple(sorted(gate["name"] for gate in gates if gate not in left))
    patch = {"metadata": head, "spec": {"schedulingGates": left}}
    return OpenedGates(meta.namespace, meta.name, ours, patch)
