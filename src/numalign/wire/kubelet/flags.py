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
from numalign.wire.kubelet.keys import COUNT, KEYS, TEXT, Key, reserved_memory_written


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

_BETWEEN: Final = {"evictionHard": "<"}  # a name and its value; elsewhere it is =
_STATIC_PODS: Final = Key("staticPodPath", "", flag="pod-manifest-path")


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


_DIGITS_MAX: Final = 18  # of any number that a flag takes


def overlaid(document: Mapping[str, Any], flags: Mapping[str, list[str]]) -> dict[str, Any]:
    """A KubeletConfiguration with what the flags say in place of what it says."""
    found = dict(document)
    for key in (*KEYS, _STATIC_PODS):
        values = flags.get(key.flag) if key.flag else None
        if not values:
            continue
        if key.kind is TEXT:
            found[key.name] = values[-1]
        elif key.kind is not COUNT:
            found[key.name] = dict(_pairs(values, _BETWEEN.get(key.name, "=")))
        elif values[-1].isdecimal() and len(values[-1]) <= _DIGITS_MAX:
            found[key.name] = int(values[-1])
    if "feature-gates" in flags:
        gates = {
            name: value.lower() == "true" for name, value in _pairs(flags["feature-gates"], "=")
        }
        found["featureGates"] = {**(found.get("featureGates") or {}), **gates}
    if "reserved-memory" in flags:
        entries = reserved_memory(flags["reserved-memory"])
        found["reservedMemory"] = reserved_memory_written(entries)
    return found


def _pairs(values: Iterable[str], between: str) -> Iterator[tuple[str, str]]:
    for value in values:
        for part in value.split(","):
            name, found, text = part.strip().partition(between)
            if found:
                yield name.strip(), text.strip()
