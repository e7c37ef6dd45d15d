"""Our own annotations on pods: what v1.Pod has no member for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from numalign.core.values import mempolicy
from numalign.core.values.mempolicy import Mempolicy
from numalign.wire.pods.records import PodRecord

# Of all containers of a pod, or with a dot and its name of one.
MEMORY_POLICY: Final = "numalign.io/memory-policy"
# Of pods that ``numalign run`` makes: the command is in the foreground of a terminal.
RUN: Final = "numalign.io/run"
# Of the same: the topology manager's policy to decide with, instead of the host's.
TOPOLOGY_POLICY: Final = "numalign.io/topology-policy"


def mempolicy_of(record: PodRecord, container: str) -> Mempolicy | None:
    """The memory policy of a container: its own, or its pod's; None if nobody asks for one."""
    found = record.metadata.annotations or {}
    text = found.get(f"{MEMORY_POLICY}.{container}", found.get(MEMORY_POLICY))
    return None if text is None else mempolicy.parsed(text)


def faults(record: PodRecord) -> Iterator[str]:
    """What is wrong with our annotations, one line each."""
    spec = record.spec
    names = {c.name for c in (*(spec.initContainers or ()), *(spec.containers or ()))}
    for key, text in (record.metadata.annotations or {}).items():
        name, dot, container = key[len(MEMORY_POLICY) :].rpartition(".")
        if not key.startswith(MEMORY_POLICY) or name or (not dot and container):
            continue
        where = f"annotation {key[:200]}"
        if dot and container not in names:
            yield f"{where}: found no such container, expected one of {', '.join(sorted(names))}"
            continue
        try:
            mempolicy.parsed(text)
        except ValueError as error:
            yield f"{where}: {error}"
