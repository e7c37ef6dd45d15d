"""Reservations: what is kept back, and what the kubelet refuses to keep back."""

from __future__ import annotations

import pytest

from numalign.core.config import reservations
from numalign.core.config.reservations import Threshold
from numalign.core.settings import Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet

CAPACITY = {"cpu": Quantity.of(8), "memory": Quantity.of(2**34, binary=True)}


def parsed(texts: dict[str, str], version: Version = Version.V1_36) -> dict[str, str]:
    found = reservations.parse_reserved("--kube-reserved", texts, version)
    return {name: str(amount) for name, amount in found.items()}


@pytest.mark.parametrize(
    ("text", "in_1_36", "in_1_37"),
    [
        ("1.0001", 2, 1),
        ("1000500u", 2, 2),
        ("400u", 1, 0),
        ("500u", 1, 1),
        ("1", 1, 1),
        ("1500m", 2, 2),
    ],
)
def test_1_37_reserves_whole_thousandths_of_a_cpu(text: str, in_1_36: int, in_1_37: int) -> None:
    for version, count in ((Version.V1_36, in_1_36), (Version.V1_37, in_1_37)):
        found = reservations.parse_reserved("--system-reserved", {"cpu": text}, version)
        assert found["cpu"].value() == count


def test_only_cpu_is_rounded() -> None:
    assert parsed({"memory": "1.0001", "pid": "100"}, Version.V1_37) == {
        "memory": "1000100u",
        "pid": "100",
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"gpu": "1"}, 'cannot reserve "gpu" resource'),
        (
            {"cpu": "x"},
            'failed to parse quantity "x" for "cpu" resource: quantities must match the regular '
            "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ({"memory": "-1Gi"}, 'resource quantity for "memory" cannot be negative: -1Gi'),
    ],
)
def test_a_bad_reservation_is_refused_in_the_kubelets_words(
    texts: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        parsed(texts)
    assert str(caught.value) == f"--kube-reserved value failed to parse: {message}"


def test_a_percentage_is_a_single_precision_part_of_the_capacity() -> None:
    threshold = reservations.parse_thresholds({"memory.available": "10%"})["memory.available"]
    assert threshold.fraction == pytest.approx(0.1)
    # 10% in single precision is a little more than a tenth.
    assert threshold.of(10**12).value() == 100000001490


def test_thresholds_of_nothing_and_of_everything_stand_for_none() -> None:
    texts = {"memory.available": "0%", "nodefs.available": "100%", "imagefs.available": "5Gi"}
    assert reservations.parse_thresholds(texts) == {
        "imagefs.available": Threshold(Quantity.parse("5Gi"))
    }


@pytest.mark.parametrize(
    ("signal", "text", "message"),
    [
        ("foo", "5%", "unsupported eviction signal foo"),
        ("memory.available", "-1", "eviction threshold memory.available must be positive: -1"),
        ("memory.available", "0", "eviction threshold memory.available must be positive: 0"),
        (
            "memory.available",
            "-5%",
            "eviction percentage threshold memory.available must be >= 0%: -5%",
        ),
        (
            "memory.available",
            "101%",
            "eviction percentage threshold memory.available must be <= 100%: 101%",
        ),
        (
            "memory.available",
            "1e99%",
            "eviction percentage threshold memory.available must be <= 100%: 1e99%",
        ),
        (
            "memory.available",
            "nan%",
            "eviction percentage threshold memory.available must be >= 0%: nan%",
        ),
        (
            "memory.available",
            "x%",
            'eviction percentage threshold memory.available is no number: "x%"',
        ),
    ],
)
def test_a_bad_threshold_is_refused(signal: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        reservations.parse_thresholds({signal: text})
    assert str(caught.value) == message


def test_the_reservation_is_the_sum_of_the_three_and_leaves_out_nothing_at_all() -> None:
    found = reservations.node_allocatable_reservation(
        {"memory": Quantity.parse("500Mi"), "cpu": Quantity.parse("500m")},
        {"memory": Quantity.parse("500Mi"), "pid": Quantity.parse("7")},
        {"memory.available": Threshold(Quantity.parse("100Mi"))},
        {**CAPACITY, "hugepages-2Mi": Quantity.of(2**21, binary=True)},
    )
    assert {name: str(amount) for name, amount in found.items()} == {
        "cpu": "500m",
        "memory": "1100Mi",
    }


def test_more_cannot_be_kept_back_than_there_is() -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        reservations.node_allocatable_reservation({"cpu": Quantity.of(9)}, {}, {}, CAPACITY)
    assert str(caught.value) == (
        'invalid Node Allocatable configuration. Resource "cpu" has a reservation of 9 but '
        "capacity of 8. Expected capacity >= reservation."
    )


def test_reserved_cpus_must_be_online() -> None:
    online = CpuSet.parse("0-7")
    assert reservations.reserved_cpu_count("0-1,4", online) == 3
    with pytest.raises(ValueError, match=r"reserved-cpus: 7-8 is not a subset of online-cpus: 0-7"):
        reservations.reserved_cpu_count("7-8", online)
    with pytest.raises(ValueError, match=r"unable to parse reserved-cpus list: strconv\.Atoi"):
        reservations.reserved_cpu_count("a", online)
