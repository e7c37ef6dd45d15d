"""The forms of the Kubernetes API that all kinds of objects share: paths, lists, watches, refusals.

An object itself stays bytes here (``msgspec.Raw``); who asked for it knows how to read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from numalign.core.errors import ApiError, WireError
from numalign.wire.faults import DECODE_FAULTS

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.:]{0,252}")
TEXT_MAX: Final = 1_000  # of a server's own words


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object: where the API keeps it."""

    group: str  # empty for the core API
    version: str
    plural: str
    name: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, part: str = "") -> str:
        """The path of all objects, of those in a namespace, of one, or of a part of one.

        A name that the API server could never have given is refused here: it might lead elsewhere.
        """
        found = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace is not None and self.is_namespaced:
            found += f"/namespaces/{_segment(namespace)}"
        found += f"/{self.plural}"
        if name is not None:
            found += f"/{_segment(name)}"
        return f"{found}/{part}" if part else found


def _segment(name: str) -> str:
    if not _SEGMENT.fullmatch(name):
        raise WireError(f"found the name {name[:100]!r}, expected one of the Kubernetes API")
    return name


PODS: Final = Kind("", "v1", "pods", "Pod")
HOSTS: Final = Kind("", "v1", "nodes", "Node", is_namespaced=False)
EVENTS: Final = Kind("", "v1", "events", "Event")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")
NRTS: Final = Kind(
    "topology.node.k8s.io",
    "v1alpha2",
    "noderesourcetopologies",
    "NodeResourceTopology",
    is_namespaced=False,
)


class Head(msgspec.Struct, rename="camel"):
    """The members of every object's metadata that the machinery needs."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Headed(msgspec.Struct):
    """Any object, as far as its head."""

    metadata: Head = msgspec.field(default_factory=Head)


class _ListHead(msgspec.Struct, rename={"resource_version": "resourceVersion", "rest": "continue"}):
    resource_version: str = ""
    rest: str = ""


class Page(msgspec.Struct):
    metadata: _ListHead = msgspec.field(default_factory=_ListHead)
    items: list[msgspec.Raw] | None = None


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float = 0.0


class Status(msgspec.Struct):
    """What the API server says in place of an object."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


WatchType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class WatchLine(msgspec.Struct):
    type: WatchType
    object: msgspec.Raw


_PAGE: Final = msgspec.json.Decoder(Page)
_LINE: Final = msgspec.json.Decoder(WatchLine)
_HEADED: Final = msgspec.json.Decoder(Headed)
_STATUS: Final = msgspec.json.Decoder(Status)


def page_of(data: bytes) -> Page:
    try:
        return _PAGE.decode(data)
    except DECODE_FAULTS as exc:
        raise WireError(f"found {_shown(data)}, expected a list of objects: {exc}") from exc


def watch_line_of(data: bytes) -> WatchLine:
    try:
        return _LINE.decode(data)
    except DECODE_FAULTS as exc:
        raise WireError(f"found {_shown(data)}, expected a line of a watch: {exc}") from exc


def head_of(data: bytes | msgspec.Raw) -> Head:
    """The head of any object; an empty one where it has none."""
    try:
        return _HEADED.decode(data).metadata
    except DECODE_FAULTS:
        return Head()


def refusal_of(data: bytes | msgspec.Raw, *, code: int, retry_after: str = "") -> ApiError:
    """What the server's refusal means, in its own words."""
    try:
        status = _STATUS.decode(data)
    except DECODE_FAULTS:
        status = Status(message=_shown(bytes(data)))
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    if not seconds and status.details is not None:
        seconds = status.details.retry_after_seconds
    return ApiError(
        status.message[:TEXT_MAX] or "no message",
        code=code or status.code,
        reason=status.reason,
        retry_after_seconds=seconds,
    )


def _shown(data: bytes) -> str:
    text = data[:200].decode(errors="replace")
    return f"{text!r} (of {len(data)} bytes)" if len(data) > 200 else repr(text)


def event_body(
    *,
    regarding: dict[str, Any],
    namespace: str,
    name: str,
    reason: str,
    note: str,
    is_warning: bool,
    component: str,
    now: str,
) -> dict[str, Any]:
    """A v1.Event about an object, once."""
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": regarding,
        "reason": reason,
        "message": note if len(note) <= 1024 else f"{note[:1020]} ...",
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": component},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
