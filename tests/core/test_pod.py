"""What a pod asks for, as each manager counts it."""

import pytest
from tests.core.hosts import GI, container, pod, resources, settings

from numalign.core.pod import (
    Container,
    NotAnIntegerError,
    Pod,
    Qos,
    exclusive_cpus,
    memory_requests,
    pod_exclusive_cpus,
    pod_limits,
    pod_memory_requests,
    pod_requests,
    qos_class,
)
from numalign.core.values.quantity import Quantity

SETTINGS = settings()
MIXED = pod(
    "p",
    container("s", 1, "1Gi", sidecar=True),
    container("i", 6, "1Gi", init=True),
    container("a", 2, "2Gi"),
    container("b", 3, "1Gi"),
)


def test_a_pod_is_guaranteed_only_if_every_limit_is_set_and_equal():
    equal = container("c", 1, "1Gi")
    assert qos_class(pod("p", equal), SETTINGS) is Qos.GUARANTEED
    loose = Container("d", resources(1, "1Gi"), resources(2, "1Gi"))
    assert qos_class(Pod("p", containers=(equal, loose)), SETTINGS) is Qos.BURSTABLE
    assert qos_class(pod("p", container("c")), SETTINGS) is Qos.BEST_EFFORT
    assert qos_class(pod("p", container("c", gpu=1)), SETTINGS) is Qos.BEST_EFFORT


def test_only_whole_cpus_of_guaranteed_pods_are_exclusive():
    for cpu, expected in (("2", 2), ("2000m", 2), ("1500m", 0)):
        one = container("c", cpu, "1Gi")
        assert exclusive_cpus(pod("p", one), one, SETTINGS) == expected
    loose = Container("c", resources(2, "1Gi"), resources(4, "1Gi"))
    assert exclusive_cpus(Pod("p", containers=(loose,)), loose, SETTINGS) == 0


def test_a_whole_pod_needs_its_apps_with_sidecars_or_its_hungriest_init_container():
    assert pod_exclusive_cpus(MIXED, SETTINGS) == 7
    assert pod_memory_requests(MIXED, SETTINGS) == {"memory": 4 * GI}
    assert pod_requests(MIXED, SETTINGS)["cpu"] == Quantity.of(7)


def test_overhead_is_added_to_limits_only_where_there_is_one():
    heavy = Pod("p", containers=(container("c", 1),), overhead=resources("250m", "64Mi"))
    assert pod_limits(heavy, SETTINGS) == {"cpu": Quantity.parse("1250m")}
    assert set(pod_requests(heavy, SETTINGS)) == {"cpu", "memory"}


def test_the_memory_manager_counts_whole_bytes_only():
    one = container("c", 1, "1500m")
    with pytest.raises(NotAnIntegerError):
        memory_requests(pod("p", one), one, SETTINGS)
