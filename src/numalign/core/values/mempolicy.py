"""From which NUMA nodes the kernel takes a process's memory: the policies of set_mempolicy(2).

A policy is written as its name and, if wanted, nodes: ``local``, ``preferred=1``, ``bind``,
``interleave=0-1``, ``weighted-interleave``. Without nodes it means all those that the memory
manager gave. It never widens them: where memory may come from is decided at admission, the policy
only says how it is spread there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from numalign.core.values.sets import NodeSet


class Mode(StrEnum):
    LOCAL = "local"  # the node of the CPU that touches a page first
    PREFERRED = "preferred"  # one node, others when it is full
    BIND = "bind"  # these nodes, and no others when they are full
    INTERLEAVE = "interleave"  # page by page over the nodes
    WEIGHTED_INTERLEAVE = "weighted-interleave"  # the same, by the weights in sysfs


SPREADS = frozenset({Mode.BIND, Mode.INTERLEAVE, Mode.WEIGHTED_INTERLEAVE})
EXPECTED = "expected local, preferred=NODE, bind, interleave or weighted-interleave (with =NODES)"


@dataclass(frozen=True, slots=True)
class Mempolicy:
    mode: Mode
    nodes: NodeSet | None = None  # None: all that the memory manager gave

    def __str__(self) -> str:
        return str(self.mode) if self.nodes is None else f"{self.mode}={self.nodes}"

    def within(self, given: NodeSet) -> Mempolicy:
        """The same policy with its nodes; ValueError if it names others than those given."""
        if self.mode is Mode.LOCAL:
            return self
        if self.nodes is None:
            return Mempolicy(self.mode, given)
        if not self.nodes.issubset(given):
            raise ValueError(
                f"memory policy {self}: found NUMA nodes {self.nodes - given}, expected some of "
                f"{given}, from which its memory comes"
            )
        return self


def parsed(text: str) -> Mempolicy:
    """The policy of a text; ValueError says what was found and expected."""
    name, sign, list_text = text.partition("=")
    try:
        mode = Mode(name)
        nodes = NodeSet.parse(list_text) if sign else None
    except ValueError:
        raise ValueError(f"found {text[:100]!r}, {EXPECTED}") from None
    is_wrong = {
        Mode.LOCAL: nodes is not None,
        Mode.PREFERRED: nodes is None or len(nodes) != 1,
    }.get(mode, nodes is not None and not nodes)
    if is_wrong:
        raise ValueError(f"found {text[:100]!r}, {EXPECTED}")
    return Mempolicy(mode, nodes)
