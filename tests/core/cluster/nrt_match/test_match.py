"""The plain rules, on the small examples that they were written down with."""

import pytest
from tests.core.cluster.nrt_match.amounts import amounts, app, host, init, need, sidecar

from numalign.core.cluster.nrt_match.match import FilterResult, Strategy, filtered, score
from numalign.core.cluster.nrt_match.need import Why
from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.pod import Qos

TWO = (amounts(cpu=4, memory="8Gi"), amounts(cpu=8, memory="8Gi"))
LEAST, MOST = Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED
BALANCED, FEW = Strategy.BALANCED_ALLOCATION, Strategy.LEAST_NUMA_NODES


def test_the_lowest_node_that_fits_is_taken_and_its_use_counts_for_the_next_container():
    pod = need(app(cpu=3, memory="2Gi"), app(cpu=3, memory="2Gi"))
    assert filtered(host(*TWO), pod) == FilterResult(Why.FITS, (0, 1))


def test_scopes_differ():
    five = need(app(cpu=5, memory="1Gi"), app(cpu=5, memory="1Gi"))
    assert filtered(host(*TWO), five) == FilterResult(Why.CONTAINER, (1,))
    assert filtered(host(*TWO, scope="pod"), five) == FilterResult(Why.POD)
    three = need(app(cpu=3, memory="2Gi"), app(cpu=3, memory="2Gi"))
    assert filtered(host(*TWO, scope="pod"), three) == FilterResult(Why.FITS, (1,))


def test_only_single_numa_node_is_filtered():
    huge = need(app(cpu=100, memory="1Gi"))
    for policy in ("none", "best-effort", "restricted"):
        assert filtered(host(*TWO, policy=policy), huge) == FilterResult(Why.FITS)
    assert filtered(host(*TWO), huge).why is Why.CONTAINER
    assert filtered(HostRecord("host"), huge) == FilterResult(Why.FITS)


def test_a_host_with_stale_data_takes_nothing_that_must_be_aligned():
    stale = HostRecord("host", is_fresh=False)
    assert filtered(stale, need(app(cpu=1, memory="1Gi"))).why is Why.STALE
    assert filtered(stale, need(app(), qos=Qos.BEST_EFFORT)).why is Why.FITS


def test_amounts_of_cpu_and_memory_count_for_guaranteed_pods_only():
    zones = (amounts(cpu=0, memory="1Gi", gpu=1), amounts(cpu=4, memory="8Gi"))
    pod = need(app(cpu=2, memory="4Gi", gpu=1), qos=Qos.BURSTABLE)
    assert filtered(host(*zones), pod) == FilterResult(Why.FITS, (0,))
    unlisted = (amounts(cpu=0, gpu=1), amounts(cpu=4))
    assert filtered(host(*unlisted), pod).why is Why.CONTAINER


def test_init_containers_leave_no_trace_and_are_named_in_the_refusal():
    one = host(amounts(cpu=8, memory="8Gi"))
    assert filtered(one, need(init(cpu=8, memory="1Gi"), app(cpu=6, memory="1Gi"))).why is Why.FITS
    assert filtered(one, need(sidecar(cpu=6), app(cpu=6))).why is Why.FITS
    assert filtered(one, need(sidecar(cpu=9), app(cpu=6))).why is Why.SIDECAR
    assert filtered(one, need(init(cpu=9), app(cpu=6))).why is Why.INIT_CONTAINER


def test_what_no_zone_lists_is_there_for_the_whole_host_if_the_host_offers_it():
    pod = need(app(gpu=1, cpu=1, memory="1Gi"))
    assert filtered(host(*TWO), pod).why is Why.FITS
    assert filtered(host(*TWO, has=()), pod).why is Why.CONTAINER


EIGHT = (amounts(cpu=16, memory="8Gi"), amounts(cpu=10, memory="32Gi"))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [({}, {LEAST: 62, MOST: 26, BALANCED: 96}), ({"cpu": 3}, {LEAST: 66, MOST: 31, BALANCED: 96})],
)
def test_the_lowest_score_of_a_zone_is_the_hosts(weights, expected):
    pod = need(app(cpu=4, memory="4Gi"))
    found = {s: score(host(*EIGHT), pod, s, weights) for s in expected}
    assert found == expected


def test_container_scope_scores_the_mean():
    pod = need(app(cpu=1, memory="1Gi"), app(cpu=4, memory="4Gi"), app(cpu=2, memory="6Gi"))
    found = [score(host(*EIGHT), pod, s, {}) for s in (LEAST, MOST, BALANCED)]
    assert found == [69, 17, 91]


def test_parts_of_a_cpu_are_rounded_up():
    four, three = host(amounts(cpu=4)), host(amounts(cpu=3))
    assert score(four, need(app(cpu="1500m")), MOST, {}) == 50
    assert score(three, need(app(cpu="2500m")), MOST, {}) == 100
    assert score(three, need(app(cpu="2500m")), LEAST, {}) == 0


COSTS = ((10, 12, 20, 22), (12, 10, 22, 24), (20, 22, 10, 12), (22, 24, 12, 10))


@pytest.mark.parametrize(
    ("cpus", "max_nodes", "expected"),
    [
        ((8, 8, 8, 8), 8, 82),
        ((8, 2, 8, 2), 8, 76),
        ((4, 4, 4, 4), 8, 70),
        ((8, 8, 8, 8), 4, 62),
        ((8, 2, 8, 2), 4, 50),
        ((4, 4, 4, 4), 4, 37),
        ((2, 2, 2, 2), 8, 0),
    ],
)
def test_few_and_close_nodes_score_best(cpus, max_nodes, expected):
    zones = [amounts(cpu=n) for n in cpus]
    few = host(*zones, costs=COSTS, max_nodes=max_nodes, policy="restricted")
    assert score(few, need(app(cpu=12)), FEW, {}) == expected


def test_pods_that_are_not_guaranteed_score_the_same_everywhere():
    pod = need(app(cpu=1), qos=Qos.BURSTABLE)
    assert {score(host(*TWO), pod, s, {}) for s in Strategy} == {100}
