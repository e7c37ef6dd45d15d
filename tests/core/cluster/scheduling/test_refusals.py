"""Why hosts do not take a pod."""

from tests.core.cluster.nrt_match.amounts import amounts, app, host, need

from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.cluster.scheduling.refusals import TOGETHER, Refusal, common, summary, too_few

TWO = (amounts(cpu=4, memory="8Gi"), amounts(cpu=8, memory="2Gi"))


def test_the_best_node_is_told_where_one_node_has_too_little():
    found = common(host(*TWO), need(app(cpu=9, memory="1Gi")))
    assert found.text == "too few CPUs in one NUMA node (has 8 of 9 free)"


def test_the_sum_is_told_where_all_nodes_have_too_little():
    found = common(host(*TWO), need(app(cpu=1, memory="11Gi")))
    assert found.text == "too little memory in all NUMA nodes (has 10Gi of 11Gi free)"


def test_enough_of_each_but_not_together_is_said_so():
    assert common(host(*TWO), need(app(cpu=6, memory="4Gi"))) == Refusal(TOGETHER)
    assert common(host(*TWO), need(app(cpu=4, memory="8Gi"))) is None


def test_what_the_host_does_not_offer_is_told_before_amounts():
    found = common(host(*TWO, has=()), need(app(gpu=1, cpu=9)))
    assert found.cause == "no vendor.com/gpu at all"
    stale = HostRecord("w", is_fresh=False)
    assert common(stale, need(app(cpu=1))).cause == "invalid node topology data"


def test_the_most_frequent_cause_comes_first():
    found = [Refusal("a"), Refusal("b"), Refusal("b")]
    assert summary(3, found) == "of 3 hosts: 2 b, 1 a"
    assert [too_few(n) for n in ("cpu", "memory", "x/y")] == [
        "too few CPUs",
        "too little memory",
        "too few x/y",
    ]
