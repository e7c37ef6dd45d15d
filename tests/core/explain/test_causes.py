"""The cause of a refusal: named only if the host decides otherwise without it."""

import pytest
from tests.core.hosts import GI, container, machine, pod, settings
from tests.core.snapshots import gpus, snapshot

from numalign.core.explain.causes import How, find_cause
from numalign.core.explain.explain import asked, explain

GPU = "example.com/gpu"


def cause_of(host, new):
    found = explain(asked(host, new), with_empty=False)
    return found.how, found.resources


def test_huge_pages_are_the_cause_where_memory_would_do():
    host = snapshot(settings("single-numa-node"), machine(hugepages=512))
    huge = container("app", 2, "1Gi", hugepages_2Mi="2Gi")
    assert cause_of(host, pod("p", huge)) == (How.ALONE, ("hugepages-2Mi",))
    found = explain(asked(host, pod("p", huge)))
    assert "asks for 2 GiB of hugepages-2Mi; node 0 has 1 GiB free" in found.sentence


def test_two_requests_that_are_each_too_much_are_both_named():
    host = snapshot(settings("single-numa-node"), machine(hugepages=512, memory=16 * GI))
    both = container("app", 2, "20Gi", hugepages_2Mi="2Gi")
    how, names = cause_of(host, pod("p", both))
    assert (how, set(names)) == (How.TOGETHER, {"memory", "hugepages-2Mi"})


def test_requests_that_do_not_agree_are_named_with_each_other_and_without_the_third():
    filled = pod("a", container("c", 7, "1Gi"))
    host = snapshot(settings("single-numa-node"), machine(), filled, plugins={GPU: gpus(0)})
    how, names = cause_of(host, pod("b", container("app", 2, "1Gi", gpu=1)))
    assert (how, names) == (How.EITHER, (GPU, "cpu"))


def test_memory_bound_to_a_group_is_refused_in_any_amount():
    wide = pod("wide", container("c", 9, "20Gi"))
    host = snapshot(settings("restricted"), machine(), wide)
    how, names = cause_of(host, pod("p", container("app", 1, "1Gi")))
    assert (how, names) == (How.ANY_AMOUNT, ("memory",))


def test_an_admitted_pod_has_no_cause_to_look_for():
    host = snapshot(settings("single-numa-node"), machine())
    case = asked(host, pod("p", container("app", 20, "1Gi")))
    assert find_cause(case, []) is None
    assert find_cause(case, ["cpu"]).how is How.ALONE


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_memory_is_not_named_because_the_pod_would_be_burstable_without_it(policy):
    host = snapshot(settings(policy), machine())
    assert cause_of(host, pod("p", container("app", 20, "1Gi")))[1] == ("cpu",)
