"""Given memory as JSON: the same from the agent, the cluster, ``admit`` and the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from numalign.core.kubelet.state import Block


class MemoryBlock(msgspec.Struct, frozen=True, rename="camel"):
    """Memory of one kind that a container or pod was given."""

    type: Annotated[str, Meta(description="memory or hugepages-SIZE")]
    nodes: Annotated[list[int], Meta(description="the NUMA nodes that hold it together")]
    size_bytes: int


def memory_blocks(blocks: Iterable[Block]) -> list[MemoryBlock]:
    """Blocks of the memory manager, typed for JSON."""
    return [MemoryBlock(block.type, list(block.nodes), block.size) for block in blocks]


def memory_data(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """The same as plain values."""
    found: list[dict[str, Any]] = msgspec.to_builtins(memory_blocks(blocks))
    return found
