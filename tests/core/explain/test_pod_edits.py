"""A pod with other requests."""

from tests.core.hosts import container, pod, resources

from numalign.core.explain.pod_edits import amount_of, edited
from numalign.core.pod import Container, Pod, Qos
from numalign.core.values.quantity import Quantity

TWO = Quantity.of(2)


def test_a_limit_that_was_equal_stays_equal():
    [found] = edited(pod("p", container("c", 4, "1Gi")), [("c", "cpu", TWO)]).containers
    assert found.requests == found.limits == resources(2, "1Gi")


def test_a_limit_that_was_higher_stays_unless_the_request_passes_it():
    loose = Pod("p", containers=(Container("c", resources(1), resources(3)),))
    [found] = edited(loose, [("c", "cpu", TWO)]).containers
    assert found.limits == resources(3)
    [found] = edited(loose, [("c", "cpu", Quantity.of(5))]).containers
    assert found.limits == resources(5)


def test_no_amount_takes_the_resource_away_and_the_class_is_worked_out_anew():
    fixed = Pod("p", containers=(container("c", 1, "1Gi"),), qos=Qos.GUARANTEED)
    found = edited(fixed, [("c", "memory", None)])
    assert found.containers[0].requests == resources(1)
    assert found.qos is None


def test_the_pods_own_resources_are_edited_without_a_container():
    own = pod("p", container("c"), own=resources(4, "1Gi"))
    found = edited(own, [(None, "cpu", TWO)])
    assert amount_of(found, None, "cpu") == TWO
    assert amount_of(found, "c", "cpu") is None
