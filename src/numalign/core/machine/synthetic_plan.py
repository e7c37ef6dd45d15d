"""What a synthetic text asks for, understood and checked, before anything is placed.

The grammar is told in ``synthetic``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from numalign.core.errors import DiscoveryError
from numalign.core.values.quantity import Quantity

CPUS_MAX: Final = 8_192
NODES_MAX: Final = 256
DEVICES_PER_NODE_MAX: Final = 32
DEVICE_OPTIONS: Final = ("gpu", "nic", "nvme", "accel")
_SHAPE: Final = re.compile(
    r"(?:(?P<s>[0-9]{1,4})s:)?(?:(?P<n>[0-9]{1,4})n:)?(?P<c>[0-9]{1,4})c(?::(?P<t>[0-9]{1,4})t)?",
    re.ASCII,
)
_SHAPE_PART: Final = re.compile(r"[0-9]{1,4}[snct]", re.ASCII)
_LOOKS: Final = re.compile(r"[0-9]+[a-z](?:[:,].*)?", re.ASCII | re.S)
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_HUGE: Final = re.compile(r"hp([0-9]{1,9}[KMGT]i)", re.ASCII)
_COUNT_OPTIONS: Final = ("l3", "d", "cxl", *DEVICE_OPTIONS)
_AMOUNT_OPTIONS: Final = ("mem", "cxlmem")
_WORD_OPTIONS: Final = ("ht", "dist")
_OPTIONS_TEXT: Final = "mem, hp2Mi, hp1Gi, gpu, nic, nvme, accel, l3, d, ht, cxl, cxlmem and dist"
_MEMORY_BYTES: Final = 64 << 30
_CXL_DISTANCES: Final = (17, 28)


@dataclass(frozen=True, slots=True)
class Plan:
    """A text as understood: counts and amounts, nothing placed yet."""

    text: str
    sockets: int
    nodes_per_socket: int
    cores_per_node: int
    threads: int
    counts: dict[str, int]
    memory_bytes: int
    cxl_memory_bytes: int
    hugepages: dict[int, int]
    adjacent: bool
    distances: tuple[int, int, int, int]

    @property
    def node_count(self) -> int:
        """The nodes with CPUs."""
        return self.sockets * self.nodes_per_socket

    @property
    def cxl_count(self) -> int:
        """The nodes without CPUs."""
        return self.counts.get("cxl", 0)

    @property
    def core_count(self) -> int:
        return self.node_count * self.cores_per_node

    @property
    def cores_per_socket(self) -> int:
        return self.nodes_per_socket * self.cores_per_node

    def cpu(self, core: int, thread: int) -> int:
        """The number of a thread of the core with this place in the machine."""
        return core * self.threads + thread if self.adjacent else thread * self.core_count + core


def looks_synthetic(text: str) -> bool:
    """Whether a text is meant as one of ours, so that a mistake in it is worth explaining."""
    return _LOOKS.fullmatch(text) is not None


def plan_of(text: str) -> Plan:
    """The plan of a text; DiscoveryError naming the part that makes no sense."""
    shape, *options = text.split(",")
    match = _SHAPE.fullmatch(shape)
    if match is None:
        strange = (part for part in shape.split(":") if not _SHAPE_PART.fullmatch(part))
        raise _wrong(text, next(strange, shape), "a shape such as 2s:1n:16c:2t")
    sockets, per_socket, cores, threads = (
        _at_least_one(text, f"{match[part]}{part}", int(match[part] or 1)) for part in "snct"
    )
    words = _options(text, options)
    counts = {key: _count(text, key, words[key]) for key in words if key in _COUNT_OPTIONS}
    memory = _amount(text, "mem", words["mem"]) if "mem" in words else _MEMORY_BYTES
    plan = Plan(
        text=text,
        sockets=sockets,
        nodes_per_socket=per_socket,
        cores_per_node=cores,
        threads=threads,
        counts=counts,
        memory_bytes=memory,
        cxl_memory_bytes=_amount(text, "cxlmem", words["cxlmem"]) if "cxlmem" in words else memory,
        hugepages=_hugepages(text, words),
        adjacent=_adjacent(text, words.get("ht", "split")),
        distances=_distances(text, words.get("dist"), per_socket),
    )
    _check_sizes(plan)
    return plan


def _options(text: str, options: list[str]) -> dict[str, str]:
    words: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        known = key in (*_COUNT_OPTIONS, *_AMOUNT_OPTIONS, *_WORD_OPTIONS) or _HUGE.fullmatch(key)
        if not equals or not known:
            raise _wrong(text, option, f"one of {_OPTIONS_TEXT} with = and a value")
        if key in words:
            raise _wrong(text, option, f"{key} once")
        words[key] = value
    return words


def _at_least_one(text: str, part: str, number: int) -> int:
    if number < 1:
        raise _wrong(text, part, "at least one of each")
    return number


def _count(text: str, key: str, value: str) -> int:
    if not _COUNT.fullmatch(value):
        raise _wrong(text, f"{key}={value}", "a whole number")
    return _at_least_one(text, f"{key}={value}", int(value)) if key in ("l3", "d") else int(value)


def _amount(text: str, key: str, value: str) -> int:
    try:
        amount = Quantity.parse(value).value()
    except ValueError as exc:
        raise _wrong(text, f"{key}={value}", "a quantity such as 96Gi") from exc
    if amount < 0:
        raise _wrong(text, f"{key}={value}", "0 or more")
    return amount


def _hugepages(text: str, words: dict[str, str]) -> dict[int, int]:
    pages = {}
    for key, value in words.items():
        match = _HUGE.fullmatch(key)
        if match:
            size = _amount(text, key, match[1])
            pages[size] = _count(text, key, value)
            if not size:
                raise _wrong(text, key, "a page size above 0")
    return dict(sorted(pages.items()))


def _adjacent(text: str, value: str) -> bool:
    if value not in ("adjacent", "split"):
        raise _wrong(text, f"ht={value}", "ht=adjacent or ht=split")
    return value == "adjacent"


def _distances(text: str, value: str | None, per_socket: int) -> tuple[int, int, int, int]:
    if value is None:
        return (12, 21 if per_socket == 1 else 32, *_CXL_DISTANCES)
    parts = value.split("/")
    if len(parts) not in (2, 4) or not all(_COUNT.fullmatch(p) and int(p) <= 255 for p in parts):
        raise _wrong(text, f"dist={value}", "dist=12/32 or dist=12/32/17/28, each at most 255")
    same, other, near, far = (*map(int, parts), *_CXL_DISTANCES)[:4]
    return same, other, near, far


def _check_sizes(plan: Plan) -> None:
    text = plan.text
    cpus = plan.core_count * plan.threads
    if cpus > CPUS_MAX:
        raise _wrong(text, f"{cpus} CPUs", f"at most {CPUS_MAX}")
    if plan.node_count + plan.cxl_count > NODES_MAX:
        raise _wrong(text, f"{plan.node_count + plan.cxl_count} NUMA nodes", f"at most {NODES_MAX}")
    for key, whole, what in (
        ("l3", plan.cores_per_node, "the cores of a NUMA node"),
        ("d", plan.cores_per_socket, "the cores of a socket"),
    ):
        if whole % plan.counts.get(key, 1):
            raise _wrong(
                text, f"{key}={plan.counts[key]}", f"a number that divides {what} ({whole})"
            )
    for key in DEVICE_OPTIONS:
        if plan.counts.get(key, 0) > DEVICES_PER_NODE_MAX:
            raise _wrong(text, f"{key}={plan.counts[key]}", f"at most {DEVICES_PER_NODE_MAX}")
    huge = sum(size * count for size, count in plan.hugepages.items())
    if huge > plan.memory_bytes:
        raise _wrong(text, f"{huge} bytes of huge pages", f"at most mem, {plan.memory_bytes}")


def _wrong(text: str, part: str, expected: str) -> DiscoveryError:
    return DiscoveryError(f"machine {text[:80]!r}", part[:80] or "nothing", expected)
