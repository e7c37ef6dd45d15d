"""Latency and bandwidth of memory, from ``node*/access*/initiators`` (the firmware's HMAT).

``access0`` names the nodes with the best access to a memory, which may be devices without
CPUs; ``access1`` names the best nodes with CPUs. The values belong to the nodes named.
"""

from __future__ import annotations

import re
from typing import Final

from numalign.adapters.sources.sysfs.nodes import NODE_ROOT
from numalign.adapters.sources.sysfs.text import SysfsText
from numalign.core.machine.machine import MemoryPath, NumaNode

_ACCESS: Final = ("access1", "access0")  # the better known first; the other adds what is missing
_NODE: Final = re.compile(r"node([0-9]{1,5})", re.ASCII)


def read_memory_paths(text: SysfsText, nodes: tuple[NumaNode, ...]) -> tuple[MemoryPath, ...]:
    """What the firmware says of the access from nodes to memory, by target and initiator."""
    ids = {node.id for node in nodes}
    paths: dict[tuple[int, int], MemoryPath] = {}
    for target in sorted(ids):
        for access in _ACCESS:
            for path in _paths(text, target, f"{NODE_ROOT}/node{target}/{access}/initiators", ids):
                paths.setdefault((path.target, path.initiator), path)
    return tuple(paths[key] for key in sorted(paths))


def _paths(text: SysfsText, target: int, base: str, ids: set[int]) -> list[MemoryPath]:
    matches = (_NODE.fullmatch(name) for name in text.tree.names(base))
    initiators = sorted(int(match[1]) for match in matches if match)
    if not initiators:
        return []
    values = [
        _positive(text, f"{base}/{name}")
        for name in ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")
    ]
    return [MemoryPath(initiator, target, *values) for initiator in initiators if initiator in ids]


def _positive(text: SysfsText, path: str) -> int | None:
    number = text.number(path)
    return number if number is not None and number > 0 else None  # 0: not told
