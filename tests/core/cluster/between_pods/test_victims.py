"""Which pods must end for another one: the fewest, then the lowest, within their budgets."""

import random
from itertools import combinations

import pytest

from numalign.core.cluster.between_pods.victims import (
    CHECKS_MAX,
    Budget,
    Candidate,
    Offer,
    choose,
)
from numalign.core.cluster.scheduling.constraints import Requirement


def offer(host, *candidates, **more):
    return Offer(host, tuple(candidates), **more)


def one(uid, priority=0, budget="", nodes=0, **requests):
    return Candidate(uid, priority, requests, budget, nodes)


def needs(*enough):
    """Fits where all of one of these sets are gone."""
    return lambda host, gone: any(gone >= set(each) for each in enough)


def uids(chosen):
    return sorted(victim.uid for victim in chosen.victims)


def test_fewer_victims_come_before_lower_ones():
    found = choose([offer("w", one("a"), one("b"), one("high", 9))], {}, needs("ab", ["high"]))
    assert uids(found) == ["high"]


def test_of_equally_many_the_lowest_go():
    found = choose(
        [offer("w1", one("a", 5)), offer("w2", one("b", 3)), offer("w3", one("c", 4))],
        {},
        needs("a", "b", "c"),
    )
    assert (found.host, uids(found)) == ("w2", ["b"])


def test_the_highest_of_them_counts_first_and_then_the_others():
    found = choose(
        [
            offer("w1", one("a", 1), one("b", 5)),
            offer("w2", one("c", 4), one("d", 4)),
            offer("w3", one("e", 4), one("f", 3)),
        ],
        {},
        needs("ab", "cd", "ef"),
    )
    assert uids(found) == ["e", "f"]


def test_pods_that_leave_already_cost_nothing():
    offers = [offer("w1", one("a")), offer("w2", one("b"), leaving=frozenset({"x"}))]
    found = choose(offers, {}, needs("a", "x"))
    assert (found.host, found.victims) == ("w2", ())


def test_nobody_is_named_where_it_would_not_help():
    assert choose([offer("w", one("a"), one("b"))], {}, lambda host, gone: False) is None


def test_a_budget_that_allows_nothing_protects_its_pods():
    offers = [offer("w", one("a", budget="ns/pdb"), one("b", 5))]
    found = choose(offers, {"ns/pdb": 0}, needs("a", "b"))
    assert uids(found) == ["b"]
    assert choose(offers[:1], {"ns/pdb": 0}, needs("a")) is None


def test_a_budget_is_not_overdrawn_by_one_choice():
    offers = [offer("w", *(one(uid, budget="ns/pdb") for uid in "abc"), one("d", 7), one("e", 8))]
    found = choose(offers, {"ns/pdb": 1}, lambda host, gone: len(gone) >= 2)
    assert uids(found) == ["a", "d"]


def test_what_cannot_be_enough_in_sum_is_not_asked():
    asked = []

    def fits(host, gone):
        asked.append(gone)
        return len(gone) == 3

    pods = [one(str(n), cpu=2) for n in range(3)]
    assert len(choose([offer("w", *pods, lacking={"cpu": 6})], {}, fits).victims) == 3
    assert all(len(gone) == 3 for gone in asked)


def test_where_there_are_too_many_sets_one_numa_node_is_cleared():
    """64 pods on 4 nodes; the new one needs a whole node, the third has the lowest pods."""
    pods = [one(f"{n:02}", n // 16 if n // 16 != 2 else -1, nodes=1 << n // 16) for n in range(64)]
    nodes = [frozenset(p.uid for p in pods if p.nodes >> k & 1) for k in range(4)]
    found = choose([offer("w", *pods)], {}, lambda host, gone: any(gone >= n for n in nodes))
    assert uids(found) == sorted(nodes[2])


def test_the_questions_have_an_end():
    count = 0

    def fits(host, gone):
        nonlocal count
        count += 1
        return len(gone) >= 20

    offers = [offer(f"w{n}", *(one(f"{n}-{k}") for k in range(200))) for n in range(60)]
    assert len(choose(offers, {}, fits).victims) == 20
    assert count <= CHECKS_MAX


@pytest.mark.parametrize("seed", range(200))
def test_no_smaller_or_lower_set_is_overlooked(seed):
    """Against all sets, one after the other."""
    rng = random.Random(seed)
    budgets = {"x": rng.randrange(3), "y": rng.randrange(2)}
    offers, enough = [], {}
    for name in ("w1", "w2"):
        pods = [
            one(f"{name}-{k}", rng.randrange(4), rng.choice(["", "", "x", "y"]))
            for k in range(rng.randrange(1, 7))
        ]
        offers.append(offer(name, *pods))
        enough[name] = [
            frozenset(p.uid for p in rng.sample(pods, rng.randrange(1, len(pods) + 1)))
            for _ in range(3)
        ]

    def fits(host, gone):
        return any(gone >= each for each in enough[host])

    def rank(host, chosen):
        return len(chosen), sorted((c.priority for c in chosen), reverse=True)

    best = None
    for each in offers:
        for size in range(1, len(each.candidates) + 1):
            for chosen in combinations(each.candidates, size):
                used = [c.budget for c in chosen if c.budget]
                is_allowed = all(used.count(name) <= budgets[name] for name in used)
                if is_allowed and fits(each.host, {c.uid for c in chosen}):
                    best = min(best or rank(each.host, chosen), rank(each.host, chosen))
    found = choose(offers, budgets, fits)
    assert (None if found is None else rank(found.host, found.victims)) == best


def test_a_budget_covers_by_namespace_and_labels():
    budget = Budget("ns/b", "ns", (Requirement("app", "In", ("db",)),), 1)
    assert budget.covers("ns", {"app": "db"})
    assert not budget.covers("other", {"app": "db"})
    assert not budget.covers("ns", {"app": "web"})
    assert Budget("ns/all", "ns", (), 1).covers("ns", {})
    assert not Budget("ns/none", "ns", None, 1).covers("ns", {})
