"""The API server's side of publishing: the Node object, and the NodeResourceTopology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import ApiError, PeerError, WireError
from numalign.core.settings import Version
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.api import HOSTS, NRTS, head_of

MANAGER: Final = "numalign-exporter"


class _NodeInfo(msgspec.Struct, rename={"kubelet": "kubeletVersion"}):
    kubelet: str = ""


class _NodeStatus(msgspec.Struct, rename={"info": "nodeInfo"}):
    info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


@dataclass(frozen=True, slots=True)
class FoundHost:
    """What the Node object says."""

    uid: str
    kubelet_version: Version | None


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """What the API server made of an object."""

    version: str
    placement_bytes: int  # 0 where the placement is too large


class Publisher:
    """The one writer of one object.

    Another manager's members are left alone unless ``takes_over``: then both would write in turn
    for ever if the other one still runs, so somebody must have said that it does not.
    """

    def __init__(self, api: ApiServer, name: str, *, takes_over: bool = False) -> None:
        self._api = api
        self._name = name
        self._takes_over = takes_over

    async def find_host(self) -> FoundHost | None:
        """The Node object, which owns what we write; None if there is none."""
        data = await self._api.get(HOSTS, self._name)
        if data is None:
            return None
        try:
            kubelet = msgspec.json.decode(data, type=_Node).status.info.kubelet
        except DECODE_FAULTS as error:
            raise WireError(f"Node {self._name}: found no v1.Node: {error}") from error
        return FoundHost(head_of(data).uid, version_of(kubelet))

    async def find_version(self) -> str | None:
        """The version of the object as it stands; None if there is none."""
        data = await self._api.get(NRTS, self._name)
        return None if data is None else head_of(data).resource_version

    async def write(self, topology: HostTopology, host_uid: str) -> WrittenObject:
        """Writes the object; PeerError with what to do if the API server refuses."""
        body = nrt.body(topology, nrt.host_reference(topology, host_uid))
        try:
            answer = await self._api.apply(
                NRTS, self._name, body, manager=MANAGER, force=self._takes_over
            )
        except ApiError as error:
            raise _explained(error, self._name) from error
        placement = body["metadata"].get("annotations", {}).get(nrt.PLACEMENT_ANNOTATION, "")
        return WrittenObject(head_of(answer).resource_version, len(placement))


def version_of(kubelet: str) -> Version | None:
    """The version whose decisions a kubelet makes, as near as we know; None for no version."""
    parts = kubelet.removeprefix("v").split(".")
    if len(parts) < 2 or parts[0] != "1" or not parts[1].isdigit():
        return None
    return Version.V1_36 if int(parts[1]) <= 36 else Version.V1_37


def _explained(error: ApiError, name: str) -> PeerError:
    if error.code == 404:
        return PeerError(
            f"the cluster does not know {NRTS.plural}: install them with "
            "`numalign crd | kubectl apply -f -`",
            retry=True,
        )
    if error.code == 409:
        return PeerError(
            f"NodeResourceTopology {name} belongs to another exporter: {error}. Remove that "
            "exporter, and then delete the object or start with --take-over.",
            retry=True,
        )
    if error.code == 403:
        return PeerError(
            f"the account may not write NodeResourceTopology {name}: {error}. Apply the RBAC rules "
            "of packaging/manifests/exporter.yaml.",
            retry=True,
        )
    return error
