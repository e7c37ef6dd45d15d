"""The distances between NUMA nodes, made short for people.

Machines with dozens of nodes have few different rows: ``alike`` puts nodes together that
nothing in the matrix tells apart, so that 34 nodes become a matrix of 6 by 6.
"""

from __future__ import annotations

from dataclasses import dataclass

from numalign.core.machine.machine import Machine
from numalign.core.values.sets import NodeSet


@dataclass(frozen=True, slots=True)
class DistanceGroups:
    """Groups of nodes with equal distances, and the distances between the groups."""

    groups: tuple[NodeSet, ...]
    rows: tuple[tuple[tuple[int, ...], ...], ...]  # one value, or two: to itself, to its like


def matrix(machine: Machine) -> tuple[tuple[int, ...], ...] | None:
    """The whole matrix, in the order of the nodes; None where any row is unknown."""
    rows = tuple(node.distances for node in machine.nodes if node.distances is not None)
    return rows if len(rows) == len(machine.nodes) else None


def each_alone(machine: Machine) -> DistanceGroups | None:
    """The whole matrix as groups of one node each."""
    return _groups(machine, [[i] for i in range(len(machine.nodes))])


def alike(machine: Machine) -> DistanceGroups | None:
    """The matrix with nodes put together that it does not tell apart."""
    rows = matrix(machine)
    if rows is None:
        return None
    groups: list[list[int]] = []
    for i in range(len(rows)):
        for group in groups:
            if all(_interchangeable(rows, i, j) for j in group) and _same_kind(machine, i, group):
                group.append(i)
                break
        else:
            groups.append([i])
    return _groups(machine, groups)


def in_words(machine: Machine, node: int) -> str:
    """The distances from one node to the others: ``12 to 1-3; 32 to 4-7``; may be empty."""
    order = [n.id for n in machine.nodes]
    row = machine.nodes[order.index(node)].distances
    if row is None:
        return ""
    to: dict[int, int] = {}
    for other, distance in zip(order, row, strict=True):
        if other != node:
            to[distance] = to.get(distance, 0) | 1 << other
    return "; ".join(f"{distance} to {NodeSet(to[distance])}" for distance in sorted(to))


def _interchangeable(rows: tuple[tuple[int, ...], ...], i: int, j: int) -> bool:
    if rows[i][i] != rows[j][j] or rows[i][j] != rows[j][i]:
        return False
    others = (k for k in range(len(rows)) if k not in (i, j))
    return all(rows[i][k] == rows[j][k] and rows[k][i] == rows[k][j] for k in others)


def _same_kind(machine: Machine, i: int, group: list[int]) -> bool:
    """Nodes with CPUs stay apart: they are what people look for by number."""
    return not machine.nodes[i].cpus and not machine.nodes[group[0]].cpus


def _groups(machine: Machine, groups: list[list[int]]) -> DistanceGroups | None:
    rows = matrix(machine)
    if rows is None:
        return None

    def between(a: list[int], b: list[int]) -> tuple[int, ...]:
        if a is b and len(a) > 1:
            return (rows[a[0]][a[0]], rows[a[0]][a[1]])
        return (rows[a[0]][b[0]],)

    names = tuple(NodeSet.of(machine.nodes[i].id for i in group) for group in groups)
    return DistanceGroups(names, tuple(tuple(between(a, b) for b in groups) for a in groups))
