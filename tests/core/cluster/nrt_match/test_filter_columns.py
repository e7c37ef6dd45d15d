"""Filter and scores for many hosts at once are those of each host alone."""

import pytest
from tests.core.cluster.nrt_match.amounts import amounts, app, host, init, need

from numalign.core.cluster.nrt_match import filter_columns, match
from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.filter_columns import ABSENT
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import Why
from numalign.core.cluster.nrt_match.record import HostRecord

HOSTS = [
    host(amounts(cpu=a, memory="8Gi"), amounts(cpu=8, memory=b), scope=scope, name=f"{a}{b}{scope}")
    for a in (2, 4, 6)
    for b in ("1Gi", "4Gi")
    for scope in ("container", "pod")
]
PODS = [
    need(app(cpu=4, memory="2Gi")),
    need(app(cpu=3, memory="2Gi"), app(cpu=6, memory="1Gi")),
    need(init(cpu=9, memory="1Gi"), app(cpu=1, memory="1Gi")),
]


def lines_of(hosts):
    columns = Columns()
    for one in hosts:
        columns.put(one)
    return columns.lines(slice(0, columns.size))


@pytest.mark.parametrize("pod", PODS)
def test_every_host_is_filtered_as_if_it_were_asked_alone(pod):
    found = filter_columns.filtered(lines_of(HOSTS), pod).tolist()
    assert found[: len(HOSTS)] == [match.filtered(one, pod).why for one in HOSTS]
    assert set(found[len(HOSTS) :]) <= {ABSENT}


@pytest.mark.parametrize("strategy", [s for s in Strategy if s is not Strategy.LEAST_NUMA_NODES])
def test_every_host_scores_as_if_it_were_asked_alone(strategy):
    pod = PODS[0]
    found = filter_columns.scored(lines_of(HOSTS), pod, strategy, {"cpu": 3}).tolist()
    expected = [match.score(one, pod, strategy, {"cpu": 3}) for one in HOSTS]
    assert found[: len(HOSTS)] == expected


def test_a_stale_host_is_told_apart_from_one_that_lacks_something():
    found = filter_columns.filtered(lines_of([HostRecord("w", is_fresh=False)]), PODS[0])
    assert found.tolist()[0] == Why.STALE
