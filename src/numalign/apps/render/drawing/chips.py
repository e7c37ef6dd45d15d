"""Small boxes with a name and a detail, side by side: PCI devices, memory without CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from numalign.apps.render.drawing.boxes import Grid, Heading, Panel
from numalign.apps.render.drawing.textwidth import shortened
from numalign.core.machine import labels
from numalign.core.machine.machine import DeviceKind, PciDevice
from numalign.core.values.sizes import counted

_GAP: Final = 4.0
_NAME_MAX: Final = 190.0  # room for the name of a device
_EDGES: Final = 14.0  # what the panel around the chips takes of the width


def devices(found: Sequence[PciDevice], width: float) -> tuple[Grid, ...]:
    """The devices as chips in as many columns as fit; virtual functions and others as counts."""
    chips: list[Panel] = []
    for kind, same in labels.by_kind(found):
        other, name = kind is DeviceKind.OTHER, labels.KIND_NAMES[kind][0]
        named = [d for d in same if not d.virtual_function and not other]
        chips += [_device(name, d) for d in named]
        rest = len(same) - len(named)
        if rest and other:
            chips.append(_chip(kind, counted(rest, "PCI device"), "other"))
        elif rest:
            chips.append(_chip(kind, counted(rest, f"{name} VF"), "SR-IOV"))
    return tags(chips, width)


def tags(chips: list[Panel], width: float) -> tuple[Grid, ...]:
    """The chips in a grid, all of one width and none larger because it is alone in its row."""
    if not chips:
        return ()
    widest = max(chip.size.w for chip in chips)
    columns = _fitting(len(chips), widest, width - _EDGES)
    same = [replace(chip, width_min=widest) for chip in chips]
    same += [Panel("blank", pad=0, width_min=widest)] * (columns - len(chips))
    return (Grid(tuple(same), columns, gap=_GAP),)


def _fitting(count: int, widest: float, width: float) -> int:
    """How many columns of chips go into the width; a few less if that makes full rows."""
    most = max(1, int((width + _GAP) // (widest + _GAP)))
    if count <= most:
        return most
    return max((n for n in range(most // 2 + 1, most + 1) if count % n == 0), default=most)


def _device(label: str, device: PciDevice) -> Panel:
    name = shortened(f"{label} {device.name}".rstrip(), 10, _NAME_MAX, bold=True)
    ids = f"{device.vendor_id:04x}:{device.device_id:04x}"
    return _chip(device.kind, name, device.address, f"{device.address} {device.name} [{ids}]")


def _chip(kind: DeviceKind, name: str, detail: str, hint: str = "") -> Panel:
    lines = (
        Heading(name, size=10, bold=True, centred=True),
        Heading(shortened(detail, 9, _NAME_MAX), size=9, centred=True),
    )
    return Panel(f"device-{kind}", lines, pad=4, hint=hint)
