import random

import pytest

from numalign.core.errors import ConfigError
from numalign.core.fleet.gpu_sharing.arrivals import Draws, arrivals, host_ranks
from numalign.core.fleet.gpu_sharing.experiment import Sample, binned, run
from numalign.core.fleet.gpu_sharing.hosts import HostShape, SharedPod
from numalign.core.fleet.gpu_sharing.policies import NAMES


def draws(seed=1):
    source = random.Random(seed)
    return Draws(iter(lambda: source.getrandbits(32), -1))


def pods(count, seed=3):
    rng = random.Random(seed)
    kinds = [(0, 0), (1, 100), (1, 460), (1, 1000), (1, 1000), (2, 1000), (8, 1000)]
    return [
        SharedPod(f"p{i:04}", rng.choice([1, 4, 12]) * 1000, rng.choice([4, 16]) * 1024, *kind)
        for i in range(count)
        for kind in [rng.choice(kinds)]
    ]


SHAPES = [HostShape(f"h{i:03}", 96_000, 393_216, 8 if i % 2 else 2, "G2") for i in range(12)]
CAPACITY = sum(shape.gpus for shape in SHAPES) * 1000


def test_bounded_draws_are_those_of_the_original_generator():
    # Worked by hand from the rule: 1602144611 * 8152 // 2**32, and the half modulo 8152.
    assert Draws(iter([1602144611])).shuffling(8152) == 3040
    assert Draws(iter([1602144611])).below(8152) == 1602144611 // 2 % 8152


def test_a_draw_that_would_prefer_small_numbers_is_drawn_again():
    assert Draws(iter([0, 1 << 31])).shuffling(3) == 1
    assert Draws(iter([(1 << 32) - 1, 8])).below(3) == 1


def test_draws_that_end_are_told():
    with pytest.raises(ConfigError, match="end after 2 numbers"):
        Draws(iter([1, 2])).skip(3)


def test_everyone_arrives_once_and_copies_follow_up_to_130_per_cent():
    listed = pods(60)
    order = arrivals(listed, 2 * sum(p.demand for p in listed), draws())
    assert sorted(order[:60]) == list(range(60))
    demand = sum(listed[i].demand for i in order)
    most = max(p.demand for p in listed)
    assert 0 < 1.3 * 2 * sum(p.demand for p in listed) - demand + most < 2 * most


def test_too_much_demand_is_cut_to_130_per_cent():
    listed = pods(60)
    capacity = sum(p.demand for p in listed) // 2
    order = arrivals(listed, capacity, draws())
    assert len(order) == len(set(order)) < 60
    assert sum(listed[i].demand for i in order) <= 1.3 * capacity


def test_a_pod_with_several_gpus_may_pass_the_limit_and_nothing_is_taken_away_for_it():
    listed = [SharedPod("a", 1, 1, 8, 1000), SharedPod("b", 1, 1, 0, 0)]
    only_a = Draws(iter([1, 1 << 31, *[0] * 9]))  # a shuffle, then the first pod again and again
    order = arrivals(listed, 10_000, only_a)
    assert order.count(0) == 2  # 16 of 13 thousand
    assert only_a.count == 4


def test_ranks_are_a_permutation():
    assert sorted(host_ranks(50, draws())) == list(range(50))


@pytest.mark.parametrize("policy", NAMES)
def test_no_host_gives_more_than_it_has_and_every_pod_is_placed_or_refused(policy):
    listed = pods(120)
    order = arrivals(listed, CAPACITY, draws())
    ranks = host_ranks(len(SHAPES), draws(2))
    found = run(SHAPES, listed, order, ranks, policy, random.Random(4).randrange)
    left = sum(sum(host.gpu_left) for host in found.hosts)
    assert CAPACITY - left == found.gpu_milli_used
    assert all(host.cpu_left >= 0 and min(host.gpu_left) >= 0 for host in found.hosts)
    assert 0 < found.refused < len(order) == len(found.samples)


def test_a_bin_has_the_mean_of_its_samples_and_an_empty_one_that_of_its_neighbours():
    found = binned([Sample(0.2, 1, 10), Sample(0.4, 3, 30), Sample(2.0, 5, 50)], 1000)
    assert found[:3] == [(2, 2), (3, 3), (5, 5)]
