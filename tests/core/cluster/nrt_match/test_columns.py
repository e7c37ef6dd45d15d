"""The columns always say what the plain rules say, whatever happens to the hosts."""

from random import Random

import pytest

from numalign.core.cluster.nrt_match import match
from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.evaluate import Evaluator, evaluated
from numalign.core.cluster.nrt_match.filter_columns import ABSENT
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import Ask, PodNeed, Why, offered, total_of
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.zones import TopologyConfig
from numalign.core.pod import Qos

NAMES = ["cpu", "memory", "vendor.com/gpu", "hugepages-2Mi", "ephemeral-storage", "gpu"]
ONE = 10**9
ODD = [1, ONE // 2, ONE // 2 + 1, 10**26, 5 * ONE + 3, 2**62, 3 * ONE // 2, -ONE]
HOSTS = 30
NAMES_OF_HOSTS = [f"h{number}" for number in range(HOSTS)]


def amounts(rng, most, *, is_odd):
    """Mostly what everybody asks for, so that hosts and pods have something in common."""
    usual = ["cpu", *rng.sample(NAMES[1:3], rng.randrange(3))]
    names = usual if rng.random() < 0.8 else rng.sample(NAMES, rng.randrange(5))
    return {
        name: rng.choice(ODD) if is_odd and rng.random() < 0.3 else rng.randrange(most) * ONE
        for name in names
    }


def a_host(rng, name):
    zones = sorted(rng.sample(range(10), rng.choice([0, 1, 2, 2, 3, 4, 4, 9])))
    has_costs = rng.random() < 0.7
    shape = Random(rng.randrange(3))  # hosts share their distances with others
    costs = {(a, b): shape.choice([10, 12, 12, 21, 300]) for a in range(10) for b in range(10)}
    is_odd = rng.random() < 0.1
    records = tuple(
        ZoneRecord(
            a,
            amounts(rng, 9, is_odd=is_odd),
            {b: costs[a, b] for b in zones} if has_costs else {},
        )
        for a in zones
    )
    return HostRecord(
        name,
        TopologyConfig(
            rng.choice(["single-numa-node"] * 5 + ["restricted"]),
            rng.choice(["container", "container", "pod"]),
            rng.choice([2, 8, 8, 1024]),
        ),
        None if rng.random() < 0.05 else records,
        offered(NAMES if rng.random() < 0.8 else rng.sample(NAMES, 3)),
        rng.random() > 0.05,
    )


def some_hosts(rng):
    columns, known = Columns(), {name: a_host(rng, name) for name in NAMES_OF_HOSTS}
    for record in known.values():
        columns.put(record)
    return columns, known


def a_need(rng):
    is_odd = rng.random() < 0.1
    kinds = [Why.CONTAINER] * 3 + [Why.INIT_CONTAINER, Why.SIDECAR]
    asks = [Ask(rng.choice(kinds), amounts(rng, 7, is_odd=is_odd)) for _ in range(rng.randrange(4))]
    asks.sort(key=lambda ask: ask.is_app)
    qos = rng.choice([Qos.GUARANTEED] * 6 + [Qos.BURSTABLE, Qos.BEST_EFFORT])
    overhead = amounts(rng, 2, is_odd=False) if rng.random() < 0.2 else {}
    return PodNeed(qos, tuple(asks), total_of(asks, overhead))


def check(columns, known, need, strategy, weights, found):
    assert (found.whys != ABSENT).sum() == len(known)
    for name, record in known.items():
        slot = columns.slot(name)
        why = match.filtered(record, need).why
        assert found.whys[slot] == why, (record, need)
        if why is Why.FITS:
            score = match.score(record, need, strategy, weights)
            assert found.scores[slot] == score, (strategy, record, need)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("seed", range(20))
def test_all_hosts_at_once_is_as_one_by_one(strategy, seed):
    rng = Random(seed)
    columns, known = some_hosts(rng)
    for _ in range(4):
        need = a_need(rng)
        weights = {name: rng.randrange(-3, 7) for name in rng.sample(NAMES, rng.randrange(4))}
        check(columns, known, need, strategy, weights, evaluated(columns, need, strategy, weights))
        scored = evaluated(columns, need, strategy, weights, scores_all=True).scores
        for name, record in known.items():
            expected = match.score(record, need, strategy, weights)
            assert scored[columns.slot(name)] == expected, (record, need)


@pytest.mark.parametrize("strategy", [Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED])
@pytest.mark.parametrize("weight", [1, 327, 328, 655, 656, 65_535, 2**30 - 1, 2**30])
def test_sums_of_weighted_scores_are_exact_however_large_the_weights_are(strategy, weight):
    rng = Random(weight)
    columns, known = some_hosts(rng)
    weights = {"cpu": weight, "memory": max(1, weight // 2), "vendor.com/gpu": weight}
    for _ in range(20):
        need = a_need(rng)
        check(columns, known, need, strategy, weights, evaluated(columns, need, strategy, weights))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_follows_every_change(seed):
    rng = Random(seed)
    strategy = rng.choice(list(Strategy))
    columns, known = Columns(), {}
    evaluator = Evaluator(columns, strategy, {})
    needs = [a_need(rng), a_need(rng)]
    for _ in range(30):
        name = rng.choice("abcdefgh")
        if rng.random() < 0.3:
            columns.remove(name)
            known.pop(name, None)
        else:
            known[name] = a_host(rng, name)
            columns.put(known[name])
        need = rng.choice(needs)
        check(columns, known, need, strategy, {}, evaluator.evaluated(need))


def test_too_many_changes_to_follow_are_looked_at_anew():
    columns = Columns()
    evaluator = Evaluator(columns, Strategy.LEAST_ALLOCATED, {})
    need = PodNeed(Qos.GUARANTEED, (Ask(Why.CONTAINER, {"cpu": 5 * ONE}),), {})
    config = TopologyConfig("single-numa-node")
    for number in range(5_000):
        zones = (ZoneRecord(0, {"cpu": number % 10 * ONE}),)
        columns.put(HostRecord(f"h{number % 7}", config, zones, offered([])))
        if number % 1_500 == 0:
            evaluator.evaluated(need)
    found = evaluator.evaluated(need)
    assert (
        found.fitting.tolist()
        == evaluated(columns, need, Strategy.LEAST_ALLOCATED, {}).fitting.tolist()
    )
    assert 0 < found.fitting.sum() < 7


def test_hosts_beyond_the_first_tables_are_kept_apart():
    columns = Columns()
    for number in range(200):
        zones = tuple(ZoneRecord(i, {"cpu": number * ONE}) for i in range(1 + number % 12))
        config = TopologyConfig("single-numa-node")
        columns.put(HostRecord(f"h{number}", config, zones, offered([])))
    need = PodNeed(Qos.GUARANTEED, (Ask(Why.CONTAINER, {"cpu": 150 * ONE}),), {})
    found = evaluated(columns, need, Strategy.MOST_ALLOCATED, {})
    assert found.fitting.nonzero()[0].tolist() == list(range(150, 200))
    columns.remove("h199")
    columns.remove("h0")
    assert len(columns) == 198
    slot = columns.put(HostRecord("new"))
    assert slot == 0
    found = evaluated(columns, need, Strategy.MOST_ALLOCATED, {})
    assert found.fitting.nonzero()[0].tolist() == [0, *range(150, 199)]
