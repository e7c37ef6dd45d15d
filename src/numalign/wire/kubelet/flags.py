"""Flags of the kubelet that decide about placement, for hosts that are not configured by a file.

The form of ``--reserved-memory`` is ``0:memory=1Gi,hugepages-2Mi=2Gi;1:memory=2Gi``; it may also be
given repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from numalign.core.errors import ConfigError
from numalign.core.settings import ReservedMemory
from numalign.core.values.gotext import atoi, quoted
from numalign.core.values.quantity import Quantity


def reserved_memory(values: Iterable[str]) -> tuple[ReservedMemory, ...]:
    """What the values of the flag reserve; ConfigError with the kubelet's words."""
    return tuple(entry for value in values for part in value.split(";") for entry in _of_node(part))


def _of_node(text: str) -> Iterator[ReservedMemory]:
    number, colon, limits = text.partition(":")
    if not colon or ":" in limits:
        raise ConfigError(
            "the reserved memory has incorrect format, expected "
            f"numaNodeID:type=quantity[,type=quantity...], got {text}"
        )
    try:
        node = atoi(number)
    except ValueError as exc:
        raise ConfigError(
            f"failed to convert the NUMA node ID, expected integer, got {number}"
        ) from exc
    for limit in limits.split(","):
        yield _limit(node, limit)


def _limit(node: int, text: str) -> ReservedMemory:
    kind, equals, amount = text.partition("=")
    if not equals or "=" in amount:
        raise ConfigError(
            f"the reserved limit has incorrect value, expected type=quantity, got {text}"
        )
    if kind != "memory" and not kind.startswith("hugepages-"):
        raise ConfigError(f"memory type conversion error, unknown type: {quoted(kind)}")
    try:
        return ReservedMemory(node, kind, Quantity.parse(amount))
    except ValueError as exc:
        raise ConfigError(f"failed to parse the quantity: {amount}") from exc


# Flags that say the same as members of the configuration file, and win over it.

_TEXTS: Final = {
    "cpu-manager-policy": "cpuManagerPolicy",
    "memory-manager-policy": "memoryManagerPolicy",
    "pod-manifest-path": "staticPodPath",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
}
_MAPS: Final = {
    "cpu-manager-policy-options": ("cpuManagerPolicyOptions", "="),
    "eviction-hard": ("evictionHard", "<"),
    "kube-reserved": ("kubeReserved", "="),
    "system-reserved": ("systemReserved", "="),
    "topology-manager-policy-options": ("topologyManagerPolicyOptions", "="),
}
_NUMBERS: Final = {"max-pods": "maxPods", "pods-per-core": "podsPerCore"}


def flags_of(arguments: Iterable[str]) -> dict[str, list[str]]:
    """The values of each flag, without its dashes; "true" for one that stands alone."""
    found: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("-"):
            if name:
                found.setdefault(name, []).append("true")
            name, equals, value = argument.lstrip("-").partition("=")
            if equals:
                found.setdefault(name, []).append(value)
                name = ""
        elif name:
            found.setdefault(name, []).append(argument)
            name = ""
    if name:
        found.setdefault(name, []).append("true")
    return found


def overlaid(document: Mapping[str, Any], flags: Mapping[str, list[str]]) -> dict[str, Any]:
    """A KubeletConfiguration with what the flags say in place of what it says."""
    found = dict(document)
    for flag, key in _TEXTS.items():
        if flag in flags:
            found[key] = flags[flag][-1]
    for flag, key in _NUMBERS.items():
        if flag in flags and flags[flag][-1].isdecimal():
            found[key] = int(flags[flag][-1])
    for flag, (key, between) in _MAPS.items():
        if flag in flags:
            found[key] = dict(_pairs(flags[flag], between))
    if "feature-gates" in flags:
        gates = {
            name: value.lower() == "true" for name, value in _pairs(flags["feature-gates"], "=")
        }
        found["featureGates"] = {**(found.get("featureGates") or {}), **gates}
    if "reserved-memory" in flags:
        by_node: dict[int, dict[str, str]] = {}
        for item in reserved_memory(flags["reserved-memory"]):
            by_node.setdefault(item.node, {})[item.type] = str(item.amount)
        found["reservedMemory"] = [
            {"numaNode": node, "limits": limits} for node, limits in by_node.items()
        ]
    return found


def _pairs(values: Iterable[str], between: str) -> Iterator[tuple[str, str]]:
    for value in values:
        for part in value.split(","):
            name, found, text = part.strip().partition(between)
            if found:
                yield name.strip(), text.strip()
