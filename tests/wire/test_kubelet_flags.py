"""The flag --reserved-memory."""

from __future__ import annotations

import pytest

from numalign.core.errors import ConfigError
from numalign.core.quantity import Quantity
from numalign.core.settings import ReservedMemory
from numalign.wire.kubelet_flags import reserved_memory

EXPECTED = (
    ReservedMemory(0, "memory", Quantity.parse("1Gi")),
    ReservedMemory(0, "hugepages-2Mi", Quantity.parse("2Gi")),
    ReservedMemory(1, "memory", Quantity.parse("2Gi")),
)


def test_nodes_are_divided_by_semicolons_or_by_repeating_the_flag() -> None:
    assert reserved_memory(["0:memory=1Gi,hugepages-2Mi=2Gi;1:memory=2Gi"]) == EXPECTED
    assert reserved_memory(["0:memory=1Gi,hugepages-2Mi=2Gi", "1:memory=2Gi"]) == EXPECTED
    assert reserved_memory([]) == ()


FORMAT = (
    "the reserved memory has incorrect format, expected "
    "numaNodeID:type=quantity[,type=quantity...], got "
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("memory=1Gi", FORMAT + "memory=1Gi"),
        ("0:1:memory=1Gi", FORMAT + "0:1:memory=1Gi"),
        ("", FORMAT),
        ("a:memory=1Gi", "failed to convert the NUMA node ID, expected integer, got a"),
        ("0:memory", "the reserved limit has incorrect value, expected type=quantity, got memory"),
        ("0:", "the reserved limit has incorrect value, expected type=quantity, got "),
        ("0:cpu=1", 'memory type conversion error, unknown type: "cpu"'),
        ("0:memory=x", "failed to parse the quantity: x"),
    ],
)
def test_a_bad_value_is_refused_in_the_kubelets_words(value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reserved_memory([value])
    assert str(caught.value) == message
