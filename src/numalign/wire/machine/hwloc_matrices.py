"""Distances and memory attributes in an hwloc XML export.

Only the latency matrix between NUMA nodes is a distance in the kernel's sense; hwloc has others,
of bandwidth and between GPUs.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from numalign.core.machine.machine import MemoryPath, NumaNode
from numalign.wire.machine.hwloc_objects import HwlocObject, bitmap, number, of_kind

MEANS_LATENCY: Final = 4  # a bit of hwloc's kind of distances
_PATH_FIELDS: Final = {
    "ReadLatency": "read_latency_ns",
    "WriteLatency": "write_latency_ns",
    "ReadBandwidth": "read_bandwidth_mib_s",
    "WriteBandwidth": "write_bandwidth_mib_s",
}
# Older exports have one value for both directions.
_COMMON_FIELDS: Final = {
    "Latency": ("read_latency_ns", "write_latency_ns"),
    "Bandwidth": ("read_bandwidth_mib_s", "write_bandwidth_mib_s"),
}
Matrix = list[tuple[int, ...]]


def latencies(root: Element, found: list[HwlocObject], ids: list[int]) -> Matrix | None:
    """The distances between these nodes, row by row; None where the export has none."""
    for matrix in root.findall("distances2"):
        kind = number(matrix.get("kind")) or 0
        if matrix.get("type") != "NUMANode" or not kind & MEANS_LATENCY:
            continue
        order = _order(matrix, found)
        values = _numbers(matrix, "u64values")
        return _arranged(order, values, ids)
    return _old_latencies(found, ids)


def _order(matrix: Element, found: list[HwlocObject]) -> list[int | None]:
    """The nodes that the rows stand for."""
    indexes = _numbers(matrix, "indexes")
    if matrix.get("indexing") != "gp":
        return list(indexes)
    by_gp = _by_gp(found)
    return [by_gp.get(index) for index in indexes]


def _by_gp(found: list[HwlocObject]) -> dict[int | None, int | None]:
    return {node.number("gp_index"): node.os_index for node in of_kind(found, "NUMANode")}


def _numbers(matrix: Element, tag: str) -> list[int]:
    texts = (part for element in matrix.findall(tag) for part in (element.text or "").split())
    return [value for text in texts if (value := number(text)) is not None]


def _old_latencies(found: list[HwlocObject], ids: list[int]) -> Matrix | None:
    """The matrix of version 1: factors of a base, for the objects of one level in their order."""
    order = [node.os_index for node in of_kind(found, "NUMANode")]
    for made in found:
        matrix = made.element.find("distances")
        if matrix is None or number(matrix.get("nbobjs")) != len(order):
            continue
        base = _factor(matrix.get("latency_base"))
        factors = [_factor(latency.get("value")) for latency in matrix.findall("latency")]
        if base is not None and None not in factors:
            return _arranged(order, [round(base * (f or 0)) for f in factors], ids)
    return None


def _factor(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e6 else None


def _arranged(order: list[int | None], values: list[int], ids: list[int]) -> Matrix | None:
    count = len(order)
    if len(values) != count * count or set(order) != set(ids) or count != len(ids):
        return None
    place = {node: i for i, node in enumerate(order)}
    return [tuple(values[place[row] * count + place[column]] for column in ids) for row in ids]


def memory_paths(
    root: Element, found: list[HwlocObject], nodes: tuple[NumaNode, ...]
) -> tuple[MemoryPath, ...]:
    """What the export says of the access from nodes with CPUs to memory."""
    by_gp = _by_gp(found)
    values: dict[tuple[int, int], dict[str, int]] = {}
    for attribute in root.findall("memattr"):
        name = attribute.get("name", "")
        single = _PATH_FIELDS.get(name)
        fields = (single,) if single else _COMMON_FIELDS.get(name, ())
        for value in attribute.findall("memattr_value") if fields else ():
            amount = number(value.get("value"))
            target = by_gp.get(number(value.get("target_obj_gp_index")))
            for initiator in _initiators(value, nodes):
                if amount and target is not None:
                    known = values.setdefault((target, initiator), {})
                    known.update({f: amount for f in fields if single or f not in known})
    return tuple(
        MemoryPath(initiator, target, **values[target, initiator])
        for target, initiator in sorted(values)
    )


def _initiators(value: Element, nodes: tuple[NumaNode, ...]) -> list[int]:
    cpus = bitmap(value.get("initiator_cpuset") or "x") or 0
    return [node.id for node in nodes if node.cpus and not node.cpus.mask & ~cpus]
