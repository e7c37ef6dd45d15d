"""CPUs spread evenly over NUMA nodes, the original's two faults included."""

import pytest
from tests.core.hosts import machine

from numalign.core.kubelet.cpu.distribute import Distribution, distinct, spread, take_distributed
from numalign.core.kubelet.cpu.pack import NotEnoughCpusError
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.values.sets import format_list, parse_list

FOUR = cpu_topology(machine(nodes=4, cores=4))  # eight CPUs each


def taken(available, count, **how):
    return format_list(take_distributed(FOUR, parse_list(available), count, Distribution(**how)))


def test_what_fits_on_one_node_stays_there():
    assert taken("0-31", 6) == "0-5"


def test_two_nodes_get_half_each():
    assert taken("0-31", 10) == "0-4,8-12"
    assert taken("0-31", 11) == "0-5,8-12"


def test_whole_cores_are_dealt_out_where_only_whole_cores_may_be_given():
    assert taken("0-31", 10, group=2) == "0-5,8-11"


def test_an_amount_of_no_whole_cores_is_packed():
    assert taken("0-31", 9, group=2) == "0-8"


def test_the_nodes_that_stay_most_even_are_chosen():
    assert taken("0-5,8-13,16-31", 12, safe=True) == "16-21,24-29"


def test_deviations_are_rounded_to_three_decimals_on_the_way():
    assert spread([1, 2, 2]) == 0.471
    assert spread([4, 4, 4]) == 0


def test_of_combinations_that_are_alike_only_the_first_is_looked_at():
    assert list(distinct("aab", 2)) == [(0, 1), (0, 2)]
    assert list(distinct("aaaa", 3)) == [(0, 1, 2)]


def test_more_than_there_is_fails_with_the_kubelets_words():
    with pytest.raises(NotEnoughCpusError, match="requested=4, available=3"):
        take_distributed(FOUR, 0b111, 4, Distribution())
