"""Writes a host's NodeResourceTopology, and only when it would change."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import ApiError, PeerError
from numalign.core.settings import Version
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.api import HOSTS, NRTS, head_of

MANAGER: Final = "numalign-exporter"
Outcome = Literal["written", "unchanged"]


class _NodeInfo(msgspec.Struct, rename={"kubelet": "kubeletVersion"}):
    kubelet: str = ""


class _NodeStatus(msgspec.Struct, rename={"info": "nodeInfo"}):
    info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class Publisher:
    """The one writer of one object.

    Another manager's members are left alone unless ``takes_over``: then both would write in turn
    for ever if the other one still runs, so somebody must have said that it does not.
    """

    def __init__(self, api: ApiServer, name: str, *, takes_over: bool = False) -> None:
        self._api = api
        self._name = name
        self._takes_over = takes_over
        self._owner: dict[str, Any] | None = None
        self._written: tuple[bytes, str] | None = None  # content, version
        self.kubelet_version: Version | None = None

    async def look_up_host(self) -> None:
        """Learns from the Node object who owns what we write, and the kubelet's version."""
        data = await self._api.get(HOSTS, self._name)
        if data is None:
            self._owner = None
            return
        reference = {"apiVersion": HOSTS.api_version, "kind": HOSTS.name, "name": self._name}
        self._owner = {**reference, "uid": head_of(data).uid}
        self.kubelet_version = version_of(msgspec.json.decode(data, type=_Node).status.info.kubelet)

    async def publish(self, topology: HostTopology, *, checks: bool = False) -> Outcome:
        """Writes it unless it is what was written last.

        With ``checks`` it is looked up whether that still stands, since others may write too.
        """
        body = nrt.body(topology, self._owner)
        content = msgspec.json.encode(body)
        if self._written is not None and self._written[0] == content:  # noqa: SIM102 - reads best
            if not checks or await self._stands(self._written[1]):
                return "unchanged"
        self._written = None
        try:
            answer = await self._api.apply(
                NRTS, self._name, body, manager=MANAGER, force=self._takes_over
            )
        except ApiError as error:
            raise _explained(error, self._name) from error
        self._written = content, head_of(answer).resource_version
        return "written"

    async def _stands(self, version: str) -> bool:
        found = await self._api.get(NRTS, self._name)
        return found is not None and head_of(found).resource_version == version


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
