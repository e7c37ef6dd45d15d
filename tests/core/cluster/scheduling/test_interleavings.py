"""The states of a host after pods came and went in whichever order."""

from tests.core.cluster.scheduling.kubelets import Kubelet, a_pod
from tests.core.hosts import machine, settings

from numalign.core.cluster.scheduling.interleavings import (
    Departure,
    class_of,
    distinct,
    grown,
    table_of,
)
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.kubelet import host


def opened(policy="single-numa-node"):
    built = host.build(settings(policy, memory=False), machine(2, 4))
    kubelet = Kubelet("host", built, {})
    kubelet.publish()
    found = rebuilt(kubelet.published[0].placement, [])
    return found.frame, found.state


def test_pods_of_one_shape_are_alike_and_others_are_not():
    assert class_of(a_pod("a", (2, 1, 0))) == class_of(a_pod("b", (2, 1, 0)))
    assert class_of(a_pod("a", (2, 1, 0))) != class_of(a_pod("a", (3, 1, 0)))


def test_pods_of_two_shapes_may_lie_in_two_ways():
    frame, base = opened()
    alike = table_of(frame, base, [a_pod("a", (2, 1, 0)), a_pod("b", (2, 1, 0))], [])
    assert len(alike.states) == 1
    both = table_of(frame, base, [a_pod("a", (2, 1, 0)), a_pod("b", (3, 1, 0))], [])
    assert len(both.states) == 2


def test_whoever_is_refused_in_any_order_is_named():
    frame, base = opened()
    pods = [a_pod("a", (7, 1, 0)), a_pod("b", (5, 1, 0)), a_pod("c", (5, 1, 0))]
    assert table_of(frame, base, pods, []).refused >= {"c"}
    assert not table_of(frame, base, pods[:2], []).refused


def test_a_pod_that_went_beside_another_may_have_gone_before_or_after():
    frame, base = opened()
    first = a_pod("first", (2, 1, 0))
    held = table_of(frame, base, [first], []).states[0]
    second = a_pod("second", (2, 1, 0))
    beside = table_of(frame, held, [second], [Departure("first", frozenset({"second"}))])
    assert len(beside.states) == 2
    before = table_of(frame, held, [second], [Departure("first")])
    assert len(before.states) == 1


def test_one_more_pod_gives_the_table_of_all():
    frame, base = opened()
    a, b = a_pod("a", (2, 1, 0)), a_pod("b", (3, 1, 0))
    step = grown(frame, table_of(frame, base, [a], []), b)
    assert len(distinct((*step.states, *table_of(frame, base, [a, b], []).states))) == 2


def test_too_many_states_are_none():
    frame, base = opened("best-effort")
    pods = [a_pod(f"p{n}", (n, 1, 0)) for n in (1, 2, 3, 4, 5, 6)]
    assert table_of(frame, base, pods[:2], []) is not None
    assert table_of(frame, base, pods, []) is None
