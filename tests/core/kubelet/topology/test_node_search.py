"""The search for node sets against all sets, and on machines too large to list them."""

import itertools
import random

import pytest

from numalign.core.kubelet.topology.merge import distance_sum
from numalign.core.kubelet.topology.node_search import Need, fewest_nodes, least_set
from numalign.core.values.sets import mask_of


def brute_force(size, count, must, needs, distances):
    found = [
        mask
        for mask in map(mask_of, itertools.combinations(range(count), size))
        if not must & ~mask and all(need.is_met(mask) for need in needs)
    ]
    if distances is None:
        return min(found, default=None)
    return min(found, key=lambda mask: (distance_sum(mask, distances), mask), default=None)


def random_need(rng, count):
    items = {1 << node: rng.randrange(5) for node in range(count)}
    for _ in range(rng.randrange(3)):
        items[mask_of(rng.sample(range(count), min(2, count)))] = rng.randint(1, 3)
    return Need(rng.randrange(10), tuple(items.items()))


def random_distances(rng, count):
    return [
        [10 if a == b else rng.choice([11, 16, 21, 32]) for b in range(count)] for a in range(count)
    ]


@pytest.mark.parametrize("seed", range(150))
def test_the_least_and_the_closest_set_are_those_of_trying_all(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 8)
    size = rng.randint(1, count)
    must = 1 << rng.randrange(count) if rng.random() < 0.3 else 0
    needs = [random_need(rng, count) for _ in range(rng.randint(0, 3))]
    distances = random_distances(rng, count) if seed % 2 else None
    found = least_set(size, 2**count - 1, must=must, needs=needs, distances=distances)
    assert found == brute_force(size, count, must, needs, distances)


@pytest.mark.parametrize("seed", range(60))
def test_the_fewest_nodes_are_those_of_trying_all(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    needs = [random_need(rng, count) for _ in range(rng.randint(1, 3))]
    sizes = [
        size for size in range(1, count) if brute_force(size, count, 0, needs, None) is not None
    ]
    assert fewest_nodes(needs, 2**count - 1, count) == min(sizes, default=count)


def layered(count):
    """Nodes in groups of 8, groups in halves: 12 in a group, 21 in a half, 32 elsewhere."""
    return [
        [
            10 if a == b else 12 if a // 8 == b // 8 else 21 if a // 32 == b // 32 else 32
            for b in range(count)
        ]
        for a in range(count)
    ]


def test_sixteen_of_sixty_four_nodes_are_found_without_trying_half_a_quadrillion_sets():
    count = 64
    need = Need(16, tuple((1 << node, 1) for node in range(count)))
    # The first group lacks a node, so two whole groups elsewhere are closer together.
    support = 2**count - 1 & ~1
    found = least_set(16, support, must=0, needs=[need], distances=layered(count))
    assert found == mask_of(range(8, 24))


def test_a_set_that_must_hold_what_it_needs_at_the_far_end_is_found_on_64_nodes():
    weights = [(1 << node, 8 if node >= 60 else 1) for node in range(64)]
    need = Need(30, tuple(weights))
    assert least_set(4, 2**64 - 1, must=0, needs=[need]) == mask_of([60, 61, 62, 63])
    assert least_set(3, 2**64 - 1, must=0, needs=[need]) is None
