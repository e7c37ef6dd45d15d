"""What hwloc itself shows of a machine, read from its console and XML output.

This reader shares nothing with numalign's own: it is the second opinion.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field

_LINE = re.compile(r"^( *)([A-Za-z0-9]+)((?:\([\w-]+\)|\[[\w,-]+\])*)(?: L#(\d+))? \((.*)\)")
_UNITS = {"KB": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CACHE = re.compile(r"L([1-5])([di]?)Cache")
_XML_CACHE_KINDS = {"0": "Unified", "1": "Data", "2": "Instruction"}


@dataclass
class Thing:
    kind: str
    os: int | None
    logical: int | None
    text: str
    parent: Thing | None
    children: list[Thing] = field(default_factory=list)
    cpuset: int | None = None

    @property
    def cpus(self) -> int:
        if self.cpuset is not None:
            return self.cpuset
        if self.kind == "PU":
            return 1 << self.os
        if self.kind == "NUMANode":
            holder = self.parent
            while holder.kind == "MemCache":
                holder = holder.parent
            return holder.cpus
        return _joined(child.cpus for child in self.children if child.kind not in _BESIDE)

    def all(self):
        yield self
        for child in self.children:
            yield from child.all()


_BESIDE = ("NUMANode", "MemCache", "HostBridge", "PCIBridge", "PCI", "OSDev", "Misc", "Bridge")


@dataclass
class View:
    cpus: int
    nodes: dict[int, tuple[int, tuple[int, int]]]  # CPUs, memory and how exact it is
    packages: dict[int, int | None]
    cores: dict[int, int | None]
    caches: Counter[tuple[int, str, int, int, int]]  # level, kind, CPUs, size, exactness
    distances: dict[tuple[int, int], int]
    devices: dict[str, tuple[int, int, int, int]]  # class, vendor, device, near CPUs


def console_view(text: str) -> View:
    root = _console_tree(text)
    things = list(root.all())
    nodes = [t for t in things if t.kind == "NUMANode"]
    return View(
        cpus=root.cpus,
        nodes={t.os: (t.cpus, _size(t.text, "local")) for t in nodes},
        packages={t.cpus: t.os for t in things if t.kind == "Package"},
        cores={t.cpus: t.os for t in things if t.kind == "Core"},
        caches=Counter(_console_cache(t) for t in things if _CACHE.fullmatch(t.kind)),
        distances=_console_distances(text, {t.logical: t.os for t in nodes}),
        devices={d[0]: d[1] for t in things if t.kind == "PCI" for d in [_console_device(t)]},
    )


def _console_tree(text: str) -> Thing:
    stack: list[tuple[int, Thing]] = []
    root = None
    for line in text.split("\n"):
        if line.startswith("depth 0:"):
            break
        match = _LINE.match(line)
        assert match, line
        indent, kind, extra, logical, rest = match.groups()
        if "MemorySideCache" in extra:
            kind = "MemCache" if kind != "L3Cache" else "MemorySideL3"
        os_index = re.match(r"P#(\d+)", rest)
        while stack and stack[-1][0] >= len(indent):
            stack.pop()
        parent = stack[-1][1] if stack else None
        thing = Thing(
            kind.rstrip("0123456789") if kind.startswith("Group") else kind,
            int(os_index[1]) if os_index else None,
            int(logical) if logical else None,
            rest,
            parent,
        )
        if parent:
            parent.children.append(thing)
        else:
            root = thing
        stack.append((len(indent), thing))
    assert root is not None
    return root


def _size(text: str, name: str) -> tuple[int, int]:
    match = re.search(rf"\b{name}=(\d+)(KB|KiB|MiB|GiB|TiB)", text)
    return (int(match[1]) * _UNITS[match[2]], _UNITS[match[2]]) if match else (0, 1)


def _console_cache(thing: Thing) -> tuple[int, str, int, int, int]:
    level, kind = _CACHE.fullmatch(thing.kind).groups()
    name = {"d": "Data", "i": "Instruction", "": "Unified"}[kind]
    return (int(level), name, thing.cpus, *_size(thing.text, "size"))


def _console_distances(text: str, os_of: dict[int, int]) -> dict[tuple[int, int], int]:
    match = re.search(r"name NUMALatency.*\n index +(.*)\n((?: +\d+(?: +\d+)+\n)+)", text)
    if not match:
        return {}
    columns = [os_of[int(n)] for n in match[1].split()]
    found = {}
    for line in match[2].splitlines():
        row, *values = map(int, line.split())
        found |= {(os_of[row], column): v for column, v in zip(columns, values, strict=True)}
    return found


def _console_device(thing: Thing) -> tuple[str, tuple[int, int, int, int]]:
    text = r"busid=(\S+) id=(\w+):(\w+) class=(\w+)"
    address, vendor, device, class_code = re.match(text, thing.text).groups()
    holder = thing.parent
    while holder.kind in _BESIDE:
        holder = holder.parent
    return address, (int(class_code, 16), int(vendor, 16), int(device, 16), holder.cpus)


def xml_view(data: bytes) -> View:
    root = ET.fromstring(data)
    top = _xml_thing(root.find("object"), None)
    things = list(top.all())
    return View(
        cpus=_joined(1 << t.os for t in things if t.kind == "PU"),
        nodes={
            t.os: (t.cpus, (int(_attribute(t, "local_memory") or 0), 1))
            for t in things
            if t.kind == "NUMANode"
        },
        packages={t.cpus: t.os for t in things if t.kind == "Package"},
        cores={t.cpus: t.os for t in things if t.kind == "Core"},
        caches=Counter(_xml_cache(t) for t in things if _is_xml_cache(t)),
        distances=_xml_distances(root),
        devices=dict(_xml_device(t) for t in things if t.kind == "PCIDev"),
    )


def _xml_thing(element: ET.Element, parent: Thing | None) -> Thing:
    number = element.get("os_index")
    cpuset = element.get("cpuset")
    thing = Thing(
        element.get("type"),
        None if number is None else int(number),
        None,
        " ".join(f"{k}={v!r}" for k, v in element.attrib.items()),
        parent,
        cpuset=None if cpuset is None else _bitmap(cpuset),
    )
    thing.children = [_xml_thing(child, thing) for child in element.findall("object")]
    return thing


def _attribute(thing: Thing, name: str) -> str | None:
    match = re.search(rf"\b{name}='([^']*)'", thing.text)
    return match[1] if match else None


def _is_xml_cache(thing: Thing) -> bool:
    return bool(_CACHE.fullmatch(thing.kind)) and "MemorySideCache" not in thing.text


def _xml_cache(thing: Thing) -> tuple[int, str, int, int, int]:
    kind = _XML_CACHE_KINDS[_attribute(thing, "cache_type")]
    size = int(_attribute(thing, "cache_size") or 0)
    return (int(_attribute(thing, "depth")), kind, thing.cpus, size, 1)


def _xml_distances(root: ET.Element) -> dict[tuple[int, int], int]:
    for matrix in root.findall("distances2"):
        if matrix.get("name") == "NUMALatency":
            ids = [int(n) for e in matrix.findall("indexes") for n in e.text.split()]
            values = [int(n) for e in matrix.findall("u64values") for n in e.text.split()]
            pairs = [(row, column) for row in ids for column in ids]
            return dict(zip(pairs, values, strict=True))
    return {}


def _xml_device(thing: Thing) -> tuple[str, tuple[int, int, int, int]]:
    text = r"(\w{4}) \[(\w{4}):(\w{4})\]"
    found = re.match(text, _attribute(thing, "pci_type")).groups()
    holder = thing.parent
    while holder.cpuset is None:
        holder = holder.parent
    return _attribute(thing, "pci_busid"), (*(int(n, 16) for n in found), holder.cpus)


def _bitmap(text: str) -> int:
    mask = 0
    for group in text.split(","):
        mask = mask << 32 | int(group or "0", 16)
    return mask


def _joined(masks) -> int:
    mask = 0
    for one in masks:
        mask |= one
    return mask
