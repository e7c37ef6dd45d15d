"""Devices that an operator declares for a question: ``--device nvidia.com/gpu=2@0,2@1``.

And the other side of it: what pods ask for although nothing on the host offers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from numalign.apps.agent.config import DeclaredDevices
from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.core.errors import ConfigError
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.devices.devices import Device
from numalign.core.pod import Pod
from numalign.core.values import resource_names
from numalign.core.values.sets import format_list, mask_of

OPTION: Final = "--device"
EXAMPLE: Final = "nvidia.com/gpu=2@0,2@1"
DEVICES_MAX: Final = 1_000  # of one resource
_PART: Final = re.compile(r"(?P<count>[0-9]{1,9})(?:@(?P<node>[0-9]{1,9}))?", re.ASCII)


def with_declared(inputs: SnapshotInputs, texts: Sequence[str]) -> SnapshotInputs:
    """The host with these devices, in place of what it says of the same resources."""
    if not texts:
        return inputs
    nodes = [node.id for node in inputs.machine.nodes]
    found = {item.resource: item.on(inputs.machine) for item in parsed(texts, nodes)}
    return replace(inputs, devices={**(inputs.devices or {}), **found})


def parsed(texts: Iterable[str], nodes: Sequence[int]) -> list[DeclaredDevices]:
    """What the options declare on a machine with these NUMA nodes; of one resource all together."""
    places: dict[str, list[int | None]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals:
            raise _fault(text, "no '='", "RESOURCE=COUNT@NODE,…")
        if not resource_names.is_extended(name):
            raise _fault(text, f"the name {name!r}", "one such as nvidia.com/gpu")
        found = places.setdefault(name, [])
        for part in rest.split(","):
            found += _places(text, part, nodes)
        if len(found) > DEVICES_MAX:
            raise _fault(text, f"{len(found)} devices", f"at most {DEVICES_MAX} of a resource")
    return [
        DeclaredDevices(name, tuple(_device(name, i, node) for i, node in enumerate(found)))
        for name, found in places.items()
    ]


def _places(text: str, part: str, nodes: Sequence[int]) -> list[int | None]:
    match = _PART.fullmatch(part)
    if match is None:
        raise _fault(text, repr(part), "COUNT@NODE, or COUNT for devices without a NUMA node")
    count = int(match["count"])
    if count > DEVICES_MAX:
        raise _fault(text, f"{count} devices", f"at most {DEVICES_MAX} of a resource")
    node = None if match["node"] is None else int(match["node"])
    if node is not None and node not in nodes:
        there = format_list(mask_of(nodes))
        raise _fault(text, f"NUMA node {node}", f"one of this machine: {there}")
    return [node] * count


def _device(resource: str, number: int, node: int | None) -> Device:
    kind = resource.rpartition("/")[2]
    return Device(f"{kind}-{number}", None if node is None else (node,))


def _fault(text: str, found: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{OPTION} {text}: found {found}, expected {expected}. Example: {OPTION} {EXAMPLE}"
    )


def unoffered(snapshot: HostSnapshot, pods: Iterable[Pod]) -> list[str]:
    """The resources that these pods ask for and nothing on the host offers."""
    known = snapshot.state.devices.resources
    wanted = {
        name
        for pod in pods
        for container in pod.in_order
        for name, amount in container.limits.items()
        if resource_names.is_extended(name) and amount.nanos > 0
    }
    return sorted(name for name in wanted if name not in known)


def unoffered_text(resource: str) -> str:
    """What to say about one of them."""
    return (
        f"no plugin has registered {resource} on this host; to ask as if one had: "
        f"{OPTION} {resource}=COUNT@NODE"
    )
