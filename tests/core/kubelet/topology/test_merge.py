"""The merge against a literal walk of the kubelet's combinations and comparison."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.core.kubelet.topology.hints import Affinity, Hint, HintSet, Region, SocketRule
from numalign.core.kubelet.topology.merge import (
    Merger,
    distance_sum,
    merged_lists,
    single_node_lists,
)
from numalign.core.kubelet.topology.node_search import Need
from numalign.core.values.sets import bits, mask_of

# The slow and obvious version.


def kubelet_merge(lists, all_nodes, distances):
    narrowest = [[h.nodes.bit_count() for h in hints if h.nodes is not None] for hints in lists]
    wanted = max((min(counts) for counts in narrowest if counts), default=0)
    best = None
    for chosen in itertools.product(*lists):
        masks = [h.nodes for h in chosen if h.nodes is not None]
        merged = all_nodes
        for mask in masks:
            merged &= mask
        preferred = all(h.preferred for h in chosen) and len(set(masks)) <= 1
        best = kubelet_compare(best, (merged, preferred), wanted, distances)
    return Hint(*best) if best else Hint(all_nodes, preferred=False)


def kubelet_compare(current, candidate, wanted, distances):
    if candidate[0] == 0:
        return current
    if current is None:
        return candidate
    if current[1] != candidate[1]:
        return current if current[1] else candidate
    have, offered = current[0].bit_count(), candidate[0].bit_count()
    if current[1] or have == offered:
        return fitter(current, candidate, distances)
    if have > wanted:
        return candidate if offered < have else current
    if have == wanted:
        return current
    return candidate if have < offered <= wanted else current


def fitter(current, candidate, distances):
    def key(mask):
        average = (
            0.0 if distances is None else distance_sum(mask, distances) / mask.bit_count() ** 2
        )
        return mask.bit_count(), average, mask

    return candidate if key(candidate[0]) < key(current[0]) else current


# Random hints, as lists and as descriptions.


@st.composite
def explicit_merges(draw):
    count = draw(st.integers(1, 8))
    mask = st.one_of(st.none(), st.integers(1, 2**count - 1))
    hints = st.lists(st.builds(Hint, mask, st.booleans()), min_size=1, max_size=5)
    lists = draw(st.lists(hints, min_size=1, max_size=4))
    return count, lists, draw(distances_of(count))


def distances_of(count):
    row = st.lists(st.sampled_from([11, 12, 21, 32]), min_size=count, max_size=count)
    table = st.lists(row, min_size=count, max_size=count).map(with_self_distance)
    return st.one_of(st.none(), table)


def with_self_distance(table):
    return [[10 if a == b else d for b, d in enumerate(row)] for a, row in enumerate(table)]


@given(explicit_merges())
@settings(max_examples=400, deadline=None)
def test_folding_lists_gives_what_walking_every_combination_gives(case):
    count, lists, distances = case
    everything = 2**count - 1
    assert merged_lists(lists, everything, distances) == kubelet_merge(lists, everything, distances)


def random_hint_set(rng, count):
    """Hints like those of a provider: CPUs, devices on several nodes, or memory with groups."""
    nodes = sorted(rng.sample(range(count), rng.randint(1, count)))
    support = mask_of(nodes)
    kind = rng.choice(["cpus", "devices", "memory"])
    items = {1 << node: rng.randrange(6) for node in nodes}
    exact = frozenset()
    must = 1 << rng.choice(nodes) if rng.random() < 0.2 else 0
    needs = [Need(rng.randrange(12), tuple(items.items()))]
    rule = None
    if kind == "devices":
        for _ in range(3):
            items[mask_of(rng.sample(nodes, min(2, len(nodes))))] = rng.randint(1, 4)
        needs = [Need(rng.randrange(12), tuple(items.items()))]
    elif kind == "memory":
        must = 0
        exact = frozenset(rng.randrange(1, 2**count) for _ in range(rng.randrange(4)))
        needs.append(Need(2, tuple((1 << node, 1) for node in nodes)))
        nodes = range(count)
    elif rng.random() < 0.3:
        halves = (mask_of(range(count // 2)), mask_of(range(count // 2, count)))
        rule = SocketRule(halves, rng.randint(1, 2))
    region = Region(support, must, tuple(needs))
    return HintSet(tuple(nodes), rng.randint(1, 3), region, exact, rule)


def random_answers(rng, count):
    answers = []
    for _ in range(rng.randint(1, 4)):
        hints = random_hint_set(rng, count)
        choice = rng.random()
        if choice < 0.1:
            answers.append(Affinity.ANYWHERE)
        elif choice < 0.13 or hints.is_empty():
            answers.append(Affinity.NOWHERE)
        else:
            answers.append(hints)
    return answers


def listed(answer):
    if isinstance(answer, HintSet):
        return list(answer.listed())
    return [Hint(None, preferred=answer is Affinity.ANYWHERE)]


@pytest.mark.parametrize("count", range(1, 9))
def test_described_hints_merge_like_their_full_lists(count):
    rng = random.Random(count)
    everything = 2**count - 1
    for number in range(400 if count < 6 else 120):
        answers = random_answers(rng, count)
        distances = None
        if number % 2:
            distances = [
                [10 if a == b else rng.choice([11, 12, 21, 32]) for b in range(count)]
                for a in range(count)
            ]
        lists = [listed(answer) for answer in answers]
        found = Merger(everything, distances).best(answers)
        assert found == merged_lists(lists, everything, distances), answers
        assert Merger(everything).single(answers) == single_node_lists(lists, everything), answers


@pytest.mark.parametrize("seed", range(40))
def test_the_description_of_hints_agrees_with_their_list(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    hints = random_hint_set(rng, count)
    every = list(hints.listed())
    assert hints.is_empty() == (not every)
    assert hints.narrowest_count() == min((h.nodes.bit_count() for h in every), default=0)
    assert list(bits(hints.singles())) == [
        h.nodes.bit_length() - 1 for h in every if h.nodes.bit_count() == 1
    ]
    if hints.socket_rule is None:
        within = rng.randrange(2**count)
        fitting = [h for h in every if not within & ~h.nodes]
        best = min(
            fitting, key=lambda h: (not h.preferred, h.nodes.bit_count(), h.nodes), default=None
        )
        assert hints.best(within) == best


def test_equal_nodes_are_needed_for_a_preferred_merge_even_if_one_contains_the_other():
    one = HintSet((0, 1), 1, None, frozenset({0b01}))
    both = HintSet((0, 1), 2, None, frozenset({0b11}))
    assert Merger(0b11).best([one, both]) == Hint(0b01, preferred=False)


def test_nobody_caring_means_all_nodes_for_best_effort_and_none_for_single_numa_node():
    answers = [Affinity.ANYWHERE, Affinity.ANYWHERE]
    assert Merger(0b11).best(answers) == Hint(0b11, preferred=True)
    assert Merger(0b11).single(answers) == Hint(None, preferred=True)


def test_a_count_below_the_wanted_one_beats_a_count_above_it():
    # The wanted count is 2 (from b), reachable are {2} and {0,1,2}: fewer wins over more.
    a = HintSet((0, 1, 2), 1, None, frozenset({0b100, 0b111}))
    b = HintSet((0, 1, 2), 3, None, frozenset({0b111}))
    c = HintSet((0, 1, 2), 3, None, frozenset({0b111, 0b110}))
    assert Merger(0b111).best([a, b, c]) == merged_lists([listed(a), listed(b), listed(c)], 0b111)
