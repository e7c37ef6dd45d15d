"""On 5,000 recorded hosts every decision and every score is that of the real plugin."""

import pytest
from tests.core.cluster.scheduling import recorded_hosts

from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.evaluate import evaluated
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import need_of
from numalign.core.cluster.nrt_match.record import record_of

pytestmark = pytest.mark.skipif(not recorded_hosts.FOLDER.is_dir(), reason=recorded_hosts.MISSING)


@pytest.fixture(scope="module")
def topologies():
    return recorded_hosts.topologies()


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_host_by_host_and_score_by_score(topologies, scope):
    columns = Columns()
    for topology in topologies:
        scoped = recorded_hosts.with_scope(topology, scope)
        columns.put(record_of(topology.name, scoped, recorded_hosts.ALLOCATABLE))
    pods = {name: need_of(pod) for name, pod in recorded_hosts.pods().items()}
    cases = [case for case in recorded_hosts.expected() if case.scope == scope]
    assert len(cases) == 3
    for case in cases:
        for strategy in Strategy:
            found = evaluated(columns, pods[case.pod], strategy, {})
            slots = found.fitting.nonzero()[0].tolist()
            assert [columns.record(slot).name for slot in slots] == case.passing
            assert found.scores[slots].tolist() == case.scores[strategy.value]
