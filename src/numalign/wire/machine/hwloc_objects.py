"""The objects of an hwloc XML export, flat and in the order of the file, each with its parent.

Three versions of the format exist. Version 1 calls a package ``Socket`` and every cache
``Cache``, and has NUMA nodes as parents of the cores; 2 and 3 hang NUMA nodes beside them.
What they share is read here; the rest is told apart by ``kind``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from numalign.core.errors import DiscoveryError
from numalign.core.values.sets import ID_MAX

OBJECTS_MAX: Final = 1_000_000
DEPTH_MAX: Final = 100
_OLD_KINDS: Final = {"Socket": "Package", "Node": "NUMANode", "System": "Machine"}
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_BITMAP: Final = re.compile(r"0xf\.\.\.f.*|(?:0x)?[0-9a-fA-F]{0,8}(?:,(?:0x)?[0-9a-fA-F]{0,8})*")
_BITMAP_CHARACTERS_MAX: Final = (ID_MAX + 1) // 32 * 11


@dataclass(frozen=True, slots=True, eq=False)
class HwlocObject:
    kind: str  # as version 2 and 3 name it, or "Cache"
    element: Element
    parent: HwlocObject | None
    cpus: int | None  # the CPUs that it stands for; devices have none

    @property
    def os_index(self) -> int | None:
        """The number that the operating system gave it."""
        return self.number("os_index")

    def number(self, name: str) -> int | None:
        return number(self.element.get(name))

    def above(self, kind: str) -> HwlocObject | None:
        """The nearest object of a kind that it is a part of."""
        found = self.parent
        while found is not None and found.kind != kind:
            found = found.parent
        return found

    def local_cpus(self) -> int:
        """Its CPUs or, for a device, those of the place that it hangs on."""
        found: HwlocObject | None = self
        while found is not None and found.cpus is None:
            found = found.parent
        return 0 if found is None or found.cpus is None else found.cpus


def topology(data: bytes, source: str) -> Element:
    """The root of an export; DiscoveryError where the bytes are none, or are made to harm."""
    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as exc:
        reason = " ".join(str(exc).split()) or type(exc).__name__
        raise DiscoveryError(
            source, f"unreadable XML ({reason})", "an export of hwloc", "Make it with lstopo X.xml."
        ) from exc
    if not isinstance(root, Element) or root.tag != "topology":
        raise DiscoveryError(source, f"XML of <{root.tag}>", "<topology>, an export of hwloc")
    return root


def objects(root: Element, source: str) -> list[HwlocObject]:
    """All objects of the topology, parents before their children."""
    found: list[HwlocObject] = []
    todo: list[tuple[Element, HwlocObject | None, int]] = [
        (child, None, 0) for child in reversed(root.findall("object"))
    ]
    while todo:
        element, parent, depth = todo.pop()
        if depth > DEPTH_MAX or len(found) == OBJECTS_MAX:
            raise DiscoveryError(
                source, "more objects than a machine has", f"{OBJECTS_MAX} of depth {DEPTH_MAX}"
            )
        made = _object(element, parent, source)
        found.append(made)
        todo.extend((child, made, depth + 1) for child in reversed(element.findall("object")))
    return found


def of_kind(found: list[HwlocObject], kind: str) -> Iterator[HwlocObject]:
    return (made for made in found if made.kind == kind)


def _object(element: Element, parent: HwlocObject | None, source: str) -> HwlocObject:
    kind = element.get("type", "")
    cpuset = element.get("cpuset")
    cpus = None if cpuset is None else bitmap(cpuset)
    if cpuset is not None and cpus is None:
        raise DiscoveryError(source, f"the cpuset {cpuset[:60]!r} of a {kind}", "a bitmap")
    return HwlocObject(_OLD_KINDS.get(kind, kind), element, parent, cpus)


def number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def bitmap(text: str) -> int | None:
    """The set that hwloc writes as ``0x0000000f,,0x1``; None where the text is none.

    A set without an end (``0xf...f``) is none for us: no machine has one.
    """
    if len(text) > _BITMAP_CHARACTERS_MAX or not _BITMAP.fullmatch(text) or "." in text:
        return None
    mask = 0
    for group in text.split(","):
        mask = mask << 32 | int(group.removeprefix("0x") or "0", 16)
    return mask
