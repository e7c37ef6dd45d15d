"""How few NUMA nodes a pod could be spread over, and how close they are."""

from tests.core.cluster.nrt_match.amounts import amounts, app, host, need

from numalign.core.cluster.nrt_match.least_nodes import (
    distances_of,
    least_nodes_score,
    score_of,
    sets_of_size,
)

COSTS = ((10, 12, 20), (12, 10, 11), (20, 11, 10))


def scored(*cpus, asks, scope="container", costs=COSTS):
    zones = [amounts(cpu=n) for n in cpus]
    return least_nodes_score(host(*zones, costs=costs, scope=scope), need(*asks))


def test_sets_are_taken_by_their_mean_distance():
    found = sets_of_size(COSTS, 2)
    assert [choice.positions for choice in found] == [(1, 2), (0, 1), (0, 2)]
    assert [choice.is_optimal for choice in found] == [True, False, False]


def test_unknown_distances_are_255():
    record = host(amounts(cpu=1), amounts(cpu=1))
    assert distances_of(record.zones) == ((255, 255), (255, 255))


def test_each_node_costs_its_share_and_the_closest_set_gets_half_of_one_back():
    assert score_of(1, 8, is_optimal=True) == 94
    assert score_of(2, 8, is_optimal=False) == 76


def test_the_fewest_nodes_with_enough_are_taken():
    assert scored(4, 4, 4, asks=[app(cpu=4)]) == 94
    assert scored(4, 4, 4, asks=[app(cpu=5)]) == 82
    assert scored(4, 4, 4, asks=[app(cpu=13)]) == 0


def test_what_one_container_took_is_gone_for_the_next():
    assert scored(4, 4, 4, asks=[app(cpu=4), app(cpu=4)]) == 94
    assert scored(4, 4, asks=[app(cpu=4), app(cpu=3), app(cpu=2)], costs=((10, 12), (12, 10))) == 0
    assert scored(4, 4, 4, asks=[app(cpu=4), app(cpu=4)], scope="pod") == 82
