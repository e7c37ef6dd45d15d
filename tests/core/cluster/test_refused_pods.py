"""Pods as the redeploy loop sees them."""

from tests.core.hosts import container
from tests.core.hosts import pod as core_pod

from numalign.core.cluster.refused_pods import shape_of


def test_the_shape_is_what_is_asked_for_and_not_the_names():
    one = core_pod("a", container("x", "2", "1Gi"), container("i", "1", init=True))
    two = core_pod("b", container("y", "2000m", "1024Mi"), container("j", "1", init=True))
    other = core_pod("b", container("y", "2", "1Gi"), container("j", "1", sidecar=True))
    assert shape_of(one) == "init(cpu=1;cpu=1)+app(cpu=2,memory=1Gi;cpu=2,memory=1Gi)"
    assert shape_of(one) == shape_of(two)
    assert shape_of(one) != shape_of(other)
