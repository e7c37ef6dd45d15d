"""How much a pod breaks up the free NUMA nodes of a host."""

from tests.core.cluster.nrt_match.amounts import amounts, app, host, need

from numalign.core.cluster.scheduling.fragmentation import Packing, common_score, score
from numalign.core.pod import Qos

KEEP, SPREAD = Packing.KEEP_WHOLE, Packing.SPREAD


def test_a_perfect_fit_scores_best_and_an_empty_node_worst():
    assert score(KEEP, [4, 8], [0, 8]) == 100
    assert score(KEEP, [4, 8], [4, 4]) == 33
    assert score(SPREAD, [4, 8], [4, 4]) == 67


def test_a_pod_that_takes_no_cpus_breaks_nothing_up():
    assert score(KEEP, [4, 8], [4, 8]) == 50


def test_the_common_rules_say_where_the_pod_would_go():
    full, empty = host(amounts(cpu=4)), host(amounts(cpu=8))
    assert common_score(KEEP, full, need(app(cpu=4))) == 100
    assert common_score(KEEP, empty, need(app(cpu=4))) == 33
    assert common_score(KEEP, empty, need(app(cpu=4), qos=Qos.BURSTABLE)) == 50
