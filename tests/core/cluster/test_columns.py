"""The columns always say what the plain rules say, whatever happens to the hosts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.core.cluster import match
from numalign.core.cluster.columns import Columns
from numalign.core.cluster.evaluate import Evaluator, evaluated
from numalign.core.cluster.match import Strategy
from numalign.core.cluster.need import Ask, PodNeed, Why, offered, total_of
from numalign.core.cluster.passes import ABSENT
from numalign.core.cluster.record import HostRecord, ZoneRecord
from numalign.core.cluster.zones import TopologyConfig
from numalign.core.pod import Qos

NAMES = ["cpu", "memory", "hugepages-2Mi", "vendor.com/gpu", "ephemeral-storage", "gpu"]
HALF, ONE = 500_000_000, 10**9
plain_amounts = st.integers(0, 12).map(lambda n: n * ONE)
odd_amounts = st.sampled_from([1, HALF, HALF + 1, 10**26, 5 * ONE + 3, 2**62, 1500 * 10**6])
all_amounts = st.one_of(plain_amounts, plain_amounts, plain_amounts, odd_amounts)


def amount_maps(values):
    return st.dictionaries(st.sampled_from(NAMES), values, max_size=4)


@st.composite
def records(draw, name=None):
    nodes = draw(st.lists(st.integers(0, 9), unique=True, max_size=draw(st.sampled_from([4, 9]))))
    costs = st.dictionaries(st.sampled_from(nodes or [0]), st.sampled_from([10, 12, 21, 300]))
    values = draw(st.sampled_from([plain_amounts, plain_amounts, all_amounts]))
    zones = tuple(ZoneRecord(n, draw(amount_maps(values)), draw(costs)) for n in sorted(nodes))
    config = TopologyConfig(
        draw(st.sampled_from(["single-numa-node"] * 3 + ["restricted"])),
        draw(st.sampled_from(["container", "pod"])),
        draw(st.sampled_from([2, 8, 1024])),
    )
    has = draw(st.sets(st.sampled_from(NAMES)))
    return HostRecord(
        name or draw(st.sampled_from("abcdefgh")),
        config,
        draw(st.sampled_from([zones, zones, zones, None])),
        offered(has),
        draw(st.sampled_from([True, True, True, False])),
    )


@st.composite
def needs(draw):
    values = draw(st.sampled_from([plain_amounts, plain_amounts, all_amounts]))
    kinds = st.sampled_from([Why.CONTAINER, Why.CONTAINER, Why.INIT_CONTAINER, Why.SIDECAR])
    asks = draw(st.lists(st.builds(Ask, kinds, amount_maps(values)), max_size=3))
    asks.sort(key=lambda ask: ask.is_app)
    qos = draw(st.sampled_from([Qos.GUARANTEED] * 3 + [Qos.BURSTABLE, Qos.BEST_EFFORT]))
    return PodNeed(qos, tuple(asks), total_of(asks, draw(amount_maps(values))))


def check(columns, known, need, strategy, weights, found):
    for name, record in known.items():
        slot = columns.slot(name)
        why = match.filtered(record, need).why
        assert found.whys[slot] == why
        if why is Why.FITS:
            assert found.scores[slot] == match.score(record, need, strategy, weights)
    assert (found.whys != ABSENT).sum() == len(known)


weight_maps = st.dictionaries(st.sampled_from(NAMES), st.integers(-3, 7))


@settings(max_examples=120, deadline=None)
@given(st.lists(records(), max_size=6), needs(), st.sampled_from(list(Strategy)), weight_maps)
def test_all_hosts_at_once_is_as_one_by_one(hosts, need, strategy, weights):
    columns = Columns()
    known = {}
    for record in hosts:
        columns.put(record)
        known[record.name] = record
    check(columns, known, need, strategy, weights, evaluated(columns, need, strategy, weights))
    scored = evaluated(columns, need, strategy, weights, scores_all=True).scores
    for name, record in known.items():
        assert scored[columns.slot(name)] == match.score(record, need, strategy, weights)


changes = st.lists(st.one_of(records(), st.sampled_from("abcdefgh")), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(changes, st.lists(needs(), min_size=1, max_size=2), st.sampled_from(list(Strategy)))
def test_what_is_kept_follows_every_change(events, pods, strategy):
    columns = Columns()
    evaluator = Evaluator(columns, strategy, {})
    known = {}
    for event in events:
        if isinstance(event, str):
            columns.remove(event)
            known.pop(event, None)
        else:
            columns.put(event)
            known[event.name] = event
        for need in pods:
            check(columns, known, need, strategy, {}, evaluator.evaluated(need))


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
