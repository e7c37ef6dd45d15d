"""The fewest NUMA nodes for many hosts at once are those of each host alone."""

import numpy as np
from tests.core.cluster.nrt_match.amounts import amounts, app, host, need

from numalign.core.cluster.nrt_match import least_nodes_columns
from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.least_nodes import least_nodes_score
from numalign.core.pod import Qos

NEAR, FAR = ((10, 12), (12, 10)), ((10, 40), (40, 10))
HOSTS = [
    host(amounts(cpu=a), amounts(cpu=b), costs=costs, scope=scope, name=f"{a}-{b}-{i}-{scope}")
    for a in (1, 3, 6)
    for b in (2, 6)
    for i, costs in enumerate((NEAR, FAR))
    for scope in ("container", "pod")
]


def scored(pod, hosts=HOSTS):
    columns = Columns()
    for one in hosts:
        columns.put(one)
    lines = columns.lines(slice(0, columns.size))
    wanted = np.ones(lines.count, np.bool_)
    return least_nodes_columns.scored(lines, pod, columns.distances_known(), wanted)


def test_every_host_scores_as_if_it_were_asked_alone():
    for pod in (need(app(cpu=2)), need(app(cpu=5)), need(app(cpu=3), app(cpu=3)), need(app(cpu=9))):
        scores, left = scored(pod)
        assert scores.tolist()[: len(HOSTS)] == [least_nodes_score(one, pod) for one in HOSTS]
        assert not left.any()


def test_hosts_with_more_than_eight_zones_are_asked_one_by_one():
    wide = host(*[amounts(cpu=1)] * 9)
    assert scored(need(app(cpu=1)), [wide])[1].tolist()[0]
    assert not scored(need(app(cpu=1)), [host(*[amounts(cpu=1)] * 8)])[1].tolist()[0]


def test_pods_that_are_not_guaranteed_score_the_same_everywhere():
    scores, _ = scored(need(app(cpu=1), qos=Qos.BURSTABLE))
    assert set(scores.tolist()) == {100}
