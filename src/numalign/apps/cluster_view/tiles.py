"""A fleet as JSON: a tile for each host, the pods that wait, and capacity for reference shapes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


def _is(text: str) -> Meta:
    return Meta(description=text)


class _Answer(msgspec.Struct, rename="camel", omit_defaults=True):
    pass


FreeOf = tuple[int, int]  # what is free, and what pods can have at most


class NodeTile(_Answer):
    """One NUMA node in small."""

    id: int
    cpus: Annotated[FreeOf, _is("CPUs to give away, free and in all")]
    memory: Annotated[FreeOf, _is("bytes, free and in all")]
    devices: Annotated[dict[str, FreeOf], _is("free and in all, by resource")] = {}


class HostTile(_Answer):
    """One host in small."""

    name: str
    at: Annotated[int, _is("the version in which it was last another one")]
    pool: str = ""
    policy: Annotated[str, _is("of its topology manager, and the scope")] = ""
    pods: Annotated[int, _is("bound to it that have not ended")] = 0
    nodes: list[NodeTile] = []
    stranded: Annotated[list[str], _is("what is idle to no use, in words, with its NUMA node")] = []
    fits: Annotated[dict[str, int], _is("how many more of each reference shape")] = {}
    refused: Annotated[int, _is("pods that its kubelet has refused, and that are still known")] = 0
    exact: Annotated[bool, _is("whether it publishes its placement, so that one can look in")] = (
        False
    )
    stale: Annotated[str, _is("why what it publishes may not be what is; empty: it is")] = ""
    unready: Annotated[str, _is("NotReady or Cordoned; empty: it takes pods")] = ""


class PendingPod(_Answer):
    """A pod without a host."""

    namespace: str
    name: str
    uid: str
    asks: Annotated[str, _is("what it asks for in all")]
    why: Annotated[str, _is("why it waits, as far as known")] = ""
    owner: str = ""


class FleetShape(_Answer):
    """A reference shape on all hosts together."""

    name: str
    amounts: dict[str, str]
    weight: int
    fits: int
    hosts: Annotated[int, _is("on which at least one fits")]


class FleetSource(_Answer):
    kind: Annotated[str, _is("scheduler, exporter, cluster, capture or simulation")]
    name: str
    version: Annotated[str, _is("of numalign")]
    live: bool = False
    at: float | None = None
    notes: list[str] = []


class FleetAnswer(_Answer):
    """All hosts, or those that are other than in the version that was asked after."""

    version: str
    time: float
    source: FleetSource
    total: Annotated[int, _is("hosts in all")]
    full: Annotated[bool, _is("false: only what has changed")]
    hosts: list[HostTile]
    gone: list[str]
    shapes: list[FleetShape]
    pending: list[PendingPod]
    pending_total: int
    problems: list[str]
