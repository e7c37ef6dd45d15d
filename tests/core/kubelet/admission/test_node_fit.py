"""The totals of a host, and what is missing for one more pod."""

from tests.core.hosts import GI, container, machine, pod, settings

from numalign.core.kubelet.admission.node_fit import Shortage, allocatable, shortages


def totals(**changes):
    found = allocatable(settings(reserved="0-1"), machine(nodes=2, cores=4, hugepages=512))
    return {**found, **changes}


def test_what_is_reserved_and_what_backs_huge_pages_is_not_for_pods():
    found = totals()
    assert found["cpu"] == (16 - 2) * 1000
    assert found["hugepages-2Mi"] == 2 * GI
    assert found["memory"] == (32 - 1 - 2) * GI


def test_a_pod_fits_as_long_as_the_sums_do():
    others = [pod(f"p{n}", container("c", 4, "1Gi")) for n in range(3)]
    assert shortages(pod("new", container("c", 2, "1Gi")), others, settings(), totals()) == []


def test_a_missing_resource_is_told_in_the_kubelets_words():
    others = [pod(f"p{n}", container("c", 4, "1Gi")) for n in range(3)]
    [found] = shortages(pod("new", container("c", "2500m", "1Gi")), others, settings(), totals())
    assert found == Shortage("cpu", 2500, 12000, 14000)
    assert found.reason == "OutOfcpu"
    assert found.missing == 500
    assert found.message == (
        "Node didn't have enough resource: cpu, requested: 2500, used: 12000, capacity: 14000"
    )


def test_all_missing_resources_come_in_a_fixed_order():
    big = pod("new", container("c", 99, "99Gi", gpu=1))
    found = shortages(big, [], settings(), totals(pods=0))
    assert [s.reason for s in found] == [
        "OutOfpods",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfexample.com/gpu",
    ]
