"""Where a container sits as JSON: the same from the agent, ``admit`` and the page."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from numalign.core.explain.alignment import PlacedContainer
from numalign.core.values.sets import format_list, ids_of
from numalign.core.views.trace import hint_data
from numalign.wire.memory_block import MemoryBlock, memory_blocks


def _is(text: str) -> Meta:
    return Meta(description=text)


class Hint(msgspec.Struct, rename="camel"):
    """What the topology manager decided for a container."""

    nodes: Annotated[list[int] | None, _is("null: any node")]
    preferred: bool


class ContainerPlacement(msgspec.Struct, rename="camel"):
    """What a container holds, and on which NUMA nodes."""

    cpus: Annotated[str, _is("such as 0-3,8; empty for a container that has ended")]
    exclusive: Annotated[bool, _is("whether no other container may use these CPUs")]
    cpu_nodes: Annotated[list[int], _is("the NUMA nodes of these CPUs")]
    memory: list[MemoryBlock]
    memory_nodes: Annotated[list[int] | None, _is("what its memory is bound to; null: any")]
    devices: Annotated[dict[str, list[str]], _is("device ids by resource")]
    device_nodes: Annotated[
        dict[str, list[list[int]]], _is("the NUMA nodes of each of these devices")
    ]
    aligned: Annotated[
        bool | None, _is("whether all that is its own is on one NUMA node; null: it has nothing")
    ]
    distance: Annotated[
        float | None, _is("from its CPUs to its memory and devices, mean; 10 = local; an estimate")
    ]
    hint: Hint | None


def container_placement(found: PlacedContainer, *, has_hint: bool = True) -> ContainerPlacement:
    own = found.placement
    return ContainerPlacement(
        cpus=format_list(found.cpus),
        exclusive=own.cpus is not None,
        cpu_nodes=list(ids_of(found.cpu_nodes)),
        memory=memory_blocks(own.memory),
        memory_nodes=None if found.memory_nodes is None else list(ids_of(found.memory_nodes)),
        devices={name: list(ids) for name, ids in own.devices.items()},
        device_nodes={
            name: [list(nodes) for nodes in each] for name, each in found.device_nodes.items()
        },
        aligned=found.aligned,
        distance=None if found.distance is None else round(found.distance, 1),
        hint=Hint(**hint_data(own.hint)) if has_hint else None,
    )
