"""Flags of the kubelet: --reserved-memory, and those that say the same as its file."""

from __future__ import annotations

import pytest

from numalign.core.errors import ConfigError
from numalign.core.settings import ReservedMemory
from numalign.core.values.quantity import Quantity
from numalign.wire.kubelet.flags import flags_of, overlaid, reserved_memory

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


def test_flags_are_read_in_both_forms():
    found = flags_of(["--a=1", "--b", "2", "--c", "-d", "x=y", "--a=3", "--last"])
    assert found == {"a": ["1", "3"], "b": ["2"], "c": ["true"], "d": ["x=y"], "last": ["true"]}


def test_flags_take_the_place_of_members():
    flags = flags_of(
        [
            "--cpu-manager-policy=static",
            "--cpu-manager-policy-options=full-pcpus-only=true,distribute-cpus-across-numa=false",
            "--eviction-hard=memory.available<100Mi,nodefs.available<10%",
            "--kube-reserved=cpu=1,memory=1Gi",
            "--feature-gates=A=true,B=false",
            "--reserved-memory=0:memory=1Gi;1:memory=2Gi",
            "--max-pods=55",
            "--node-ip=10.0.0.1",
        ]
    )
    document = {"cpuManagerPolicy": "none", "featureGates": {"B": True, "C": True}, "other": 1}
    assert overlaid(document, flags) == {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {
            "full-pcpus-only": "true",
            "distribute-cpus-across-numa": "false",
        },
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "featureGates": {"A": True, "B": False, "C": True},
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "1Gi"}},
            {"numaNode": 1, "limits": {"memory": "2Gi"}},
        ],
        "maxPods": 55,
        "other": 1,
    }
    assert overlaid(document, {}) == document
