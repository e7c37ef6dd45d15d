"""The flag ``--reserved-memory`` of the kubelet, for hosts that are not configured by a file.

Its form is ``0:memory=1Gi,hugepages-2Mi=2Gi;1:memory=2Gi``; it may also be given repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numalign.core.errors import ConfigError
from numalign.core.gotext import atoi, quoted
from numalign.core.quantity import Quantity
from numalign.core.settings import ReservedMemory


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
