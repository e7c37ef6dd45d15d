"""The kube-scheduler extender protocol v1: requests in, answers out, in JSON as Go writes it.

Its members have the Go names, capitalised, and absent ones are null. A scheduler sends hosts as
names (``nodeCacheCapable: true``) or as whole v1.Node objects; the answer must have the same form,
and repeats the objects byte for byte, because we never look into them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.scheduling import ClusterPod, pod_from_json

# 5,000 full Node objects with images and conditions are some 30 MB; names are 150 kB.
BODY_BYTES_MAX: Final = 40 * 1024 * 1024
SCORE_MAX: Final = 10  # MaxExtenderPriority
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HostsAsked:
    """The pod, and the hosts that are asked about; ``objects`` only if whole ones were sent."""

    pod: ClusterPod
    names: tuple[str, ...]
    objects: Mapping[str, msgspec.Raw] | None


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which hosts are left, and why the others are not; the hopeless ones not even when empty.

    With an ``error`` the question could not be answered, and shall be asked again.
    """

    kept: Collection[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    hopeless: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class BindAsked:
    """A pod that shall be bound to a host."""

    name: str
    namespace: str
    uid: str
    host: str


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods that would be evicted from a host, by uid."""

    uids: tuple[str, ...]
    budget_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptAsked:
    """A pod, and who would have to go from which host to make room for it."""

    pod: ClusterPod
    victims: Mapping[str, Victims]


_NOTHING: Final = msgspec.Raw(b"null")


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Head(msgspec.Struct):
    """An object that is sent whole, as far as its name."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Args(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NOTHING
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _BindArgs(msgspec.Struct, rename="pascal"):
    pod_name: str = ""
    pod_namespace: str = ""
    pod_u_i_d: str = msgspec.field(name="PodUID", default="")
    node: str = ""


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class _MetaVictims(msgspec.Struct, rename="pascal"):
    pods: list[_MetaPod] | None = None
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _FullVictims(_MetaVictims, rename="pascal"):
    pods: list[_Head] | None = None  # type: ignore[assignment] # only read, in another form


class _PreemptArgs(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw = _NOTHING
    node_name_to_victims: dict[str, _FullVictims] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


_HEAD: Final = msgspec.json.Decoder(_Head)
_ARGS: Final = msgspec.json.Decoder(_Args)
_BIND: Final = msgspec.json.Decoder(_BindArgs)
_PREEMPT: Final = msgspec.json.Decoder(_PreemptArgs)


def read_hosts_asked(data: bytes) -> HostsAsked:
    """A request to filter or to prioritize."""
    args = _decoded(_ARGS, data, "ExtenderArgs")
    pod = _pod(args.pod)
    if args.node_names is not None:
        return HostsAsked(pod, tuple(args.node_names), None)
    if args.nodes is None:
        raise WireError("ExtenderArgs: found neither NodeNames nor Nodes, expected one of them")
    objects: dict[str, msgspec.Raw] = {}
    for item in args.nodes.items or ():
        try:
            name = _HEAD.decode(item).metadata.name
        except DECODE_FAULTS as error:
            raise WireError(f"ExtenderArgs: Nodes.items: not a v1.Node: {error}") from error
        if not name:
            raise WireError("ExtenderArgs: Nodes.items: found a v1.Node without metadata.name")
        objects[name] = item
    return HostsAsked(pod, tuple(objects), objects)


def read_bind_asked(data: bytes) -> BindAsked:
    args = _decoded(_BIND, data, "ExtenderBindingArgs")
    found = BindAsked(args.pod_name, args.pod_namespace, args.pod_u_i_d, args.node)
    for member, value in (
        ("PodName", found.name),
        ("PodNamespace", found.namespace),
        ("PodUID", found.uid),
        ("Node", found.host),
    ):
        if not value:
            raise WireError(f"ExtenderBindingArgs: {member}: found nothing, expected a name")
    return found


def read_preempt_asked(data: bytes) -> PreemptAsked:
    """A request to look over the victims of a preemption."""
    args = _decoded(_PREEMPT, data, "ExtenderPreemptionArgs")
    victims: dict[str, Victims] = {}
    for host, meta in (args.node_name_to_meta_victims or {}).items():
        victims[host] = Victims(tuple(p.uid for p in meta.pods or ()), meta.violations)
    for host, full in (args.node_name_to_victims or {}).items():
        victims[host] = Victims(tuple(p.metadata.uid for p in full.pods or ()), full.violations)
    return PreemptAsked(_pod(args.pod), victims)


def _decoded(decoder: msgspec.json.Decoder[_T], data: bytes, kind: str) -> _T:
    if len(data) > BODY_BYTES_MAX:
        raise WireError(f"{kind}: found {len(data)} bytes, at most {BODY_BYTES_MAX} are read")
    try:
        return decoder.decode(data)
    except RecursionError as error:
        raise WireError(f"{kind}: nested too deeply") from error
    except DECODE_FAULTS as error:
        raise WireError(f"{kind}: {error}") from error


def _pod(data: msgspec.Raw) -> ClusterPod:
    if bytes(data) == b"null":
        raise WireError("Pod: found null, expected a v1.Pod")
    try:
        return pod_from_json(bytes(data))
    except RecursionError as error:
        raise WireError("Pod: nested too deeply") from error


# Answers.


def filter_answer(
    asked: HostsAsked,
    kept: Collection[str],
    failed: Mapping[str, str],
    unresolvable: Mapping[str, str],
) -> bytes:
    """Which hosts are left, in the form in which they came, and why the others are not."""
    names = [name for name in asked.names if name in kept]
    if asked.objects is None:
        return _filter_result(None, names, failed, unresolvable)
    nodes = {"metadata": {}, "items": [asked.objects[name] for name in names]}
    return _filter_result(nodes, None, failed, unresolvable)


def filter_error(text: str) -> bytes:
    """The call to filter failed; the scheduler shows the text in an event of the pod."""
    return _filter_result(None, None, {}, {}, text)


def _filter_result(
    nodes: Mapping[str, object] | None,
    names: Sequence[str] | None,
    failed: Mapping[str, str],
    unresolvable: Mapping[str, str],
    error: str = "",
) -> bytes:
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": names,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": error,
        }
    )


def prioritize_answer(scores: Sequence[tuple[str, int]]) -> bytes:
    """A score for each host; those left out count as 0."""
    return msgspec.json.encode([{"Host": host, "Score": score} for host, score in scores])


def bind_answer(error: str = "") -> bytes:
    """Whether the pod was bound: an empty text if so."""
    return msgspec.json.encode({"Error": error})


def preempt_answer(victims: Mapping[str, Victims]) -> bytes:
    """The hosts on which the preemption would help, with who goes."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                host: {
                    "Pods": [{"UID": uid} for uid in who.uids],
                    "NumPDBViolations": who.budget_violations,
                }
                for host, who in victims.items()
            }
        }
    )
