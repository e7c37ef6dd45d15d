"""Reading a cluster once, for commands that show something of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.sources.fleet_captures import read_fleet
from numalign.apps.render.text import printable
from numalign.cli.options import ClusterOptions
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.errors import ApiError, ConfigError, WireError
from numalign.core.pod import Pod
from numalign.wire.fleet.capture import FleetCapture, reduced
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.api import HOSTS, NRTS, PODS, Kind, head_of
from numalign.wire.kubernetes.budgets import BUDGETS, Budget, budget_from_json
from numalign.wire.kubernetes.scheduling import ClusterPod, host_from_json, pod_from_json

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cluster:
    hosts: tuple[HostFacts, ...] = ()
    topologies: dict[str, HostTopology] = field(default_factory=dict)
    pods: tuple[ClusterPod, ...] = ()

    def pods_by_host(self) -> dict[str, list[Pod]]:
        """The pods that are on each host and have not ended."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            if pod.host and not pod.is_over:
                found.setdefault(pod.host, []).append(pod.pod)
        return found


def from_capture(path: Path) -> Cluster:
    """The cluster in a file of 'numalign capture --cluster'."""
    return cluster_in(read_fleet(path))


def cluster_in(found: FleetCapture) -> Cluster:
    """The cluster of a capture."""
    return Cluster(
        tuple(_decoded(HOSTS, found.hosts, host_from_json)),
        {one.name: one for one in _decoded(NRTS, found.topologies, _topology)},
        tuple(_decoded(PODS, found.pods, pod_from_json)),
    )


def capture(options: ClusterOptions) -> FleetCapture:
    """What a capture keeps of a live cluster."""

    async def read() -> FleetCapture:
        async with ApiServer.connect(options.kubeconfig, context=options.context) as api:
            hosts, topologies, pods = [(await api.listed(k))[0] for k in (HOSTS, NRTS, PODS)]
            return reduced(hosts, topologies, pods)

    return asyncio.run(read())


def read_budgets(options: ClusterOptions) -> list[Budget]:
    """The disruption budgets of a cluster; none where they may not be read, with a warning."""

    async def read() -> list[Budget]:
        async with ApiServer.connect(options.kubeconfig, context=options.context) as api:
            try:
                return await _listed(api, BUDGETS, budget_from_json)
            except ApiError as error:
                if error.code not in (403, 404):
                    raise
                _say("warning: disruption budgets cannot be read; evictions still heed them")
                return []

    return asyncio.run(read())


def read_cluster(options: ClusterOptions, *, with_pods: bool = False) -> Cluster:
    """Reads hosts, what they publish, and the pods if wanted."""
    return asyncio.run(_read(options, with_pods=with_pods))


async def _read(options: ClusterOptions, *, with_pods: bool) -> Cluster:
    async with ApiServer.connect(options.kubeconfig, context=options.context) as api:
        hosts = await _listed(api, HOSTS, host_from_json)
        try:
            published = await _listed(api, NRTS, _topology)
        except ApiError as error:
            if error.code != 404:
                raise
            raise ConfigError(
                "the cluster knows no NodeResourceTopology objects. Apply the output of "
                "'numalign crd', and run 'numalign export' on its hosts."
            ) from error
        pods = await _listed(api, PODS, pod_from_json) if with_pods else []
        return Cluster(tuple(hosts), {one.name: one for one in published}, tuple(pods))


async def _listed(api: ApiServer, kind: Kind, decode: Callable[[bytes], _T]) -> list[_T]:
    raw, _ = await api.listed(kind)
    return _decoded(kind, raw, decode)


def _decoded(kind: Kind, raw: Iterable[msgspec.Raw], decode: Callable[[bytes], _T]) -> list[_T]:
    found = []
    for one in raw:
        try:
            found.append(decode(bytes(one)))
        except WireError as error:
            _warn(kind, one, error)
    return found


def _warn(kind: Kind, raw: msgspec.Raw, error: WireError) -> None:
    name = head_of(raw).name or "without a name"
    _say(f"warning: {kind.name} {name[:100]} is passed over: {error}")


def _topology(data: bytes) -> HostTopology:
    found = nrt.read(data)
    for problem in found.problems:
        _say(f"warning: {found.topology.name}: {problem}")
    return found.topology


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)
