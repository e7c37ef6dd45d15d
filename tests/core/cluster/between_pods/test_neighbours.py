"""Rules between pods, against counting everything anew for each question."""

import random

import pytest

from numalign.core.cluster.between_pods.neighbours import Located, Neighbours, Newcomer
from numalign.core.cluster.between_pods.rules import PodRules, Scope, Spread, Term
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostRequirements,
    Requirement,
    Taint,
)

ZONE, NAME = "zone", "name"
DB = Requirement("app", "In", ("db",))


def scope(*requirements, namespaces=("ns",), **more):
    return Scope(None if namespaces is None else frozenset(namespaces), requirements, **more)


def hosts(*zones):
    """Hosts w0, w1 and so on, in these zones; None: without a zone."""
    found = {}
    for number, zone in enumerate(zones):
        labels = {NAME: f"w{number}"} | ({ZONE: zone} if zone else {})
        found[f"w{number}"] = HostFacts(f"w{number}", labels)
    return found


def pod(uid, host, namespace="ns", repels=(), is_leaving=False, **labels):
    return Located(uid, host, namespace, labels, is_leaving, tuple(repels))


def new(rules=None, namespace="ns", requirements=None, **labels):
    return Newcomer("new", namespace, labels, requirements or HostRequirements(), rules)


def left(found, there, neighbours=None, everyone=(), without=()):
    """The hosts that a guard leaves to a pod."""
    neighbours = neighbours or Neighbours()
    guard = neighbours.guard(found, there, lambda: everyone, without)
    return {name for name, host in there.items() if guard is None or guard(host) is None}


def test_nothing_is_counted_where_no_pod_has_rules():
    neighbours = Neighbours()
    assert not neighbours.is_counting
    assert neighbours.guard(new(app="db"), hosts("a"), lambda: 1 / 0) is None


def test_a_pod_that_runs_keeps_others_out_of_its_domain():
    neighbours, there = Neighbours(), hosts("a", "a", "b")
    neighbours.came(pod("x", "w0", repels=[Term(scope(DB), ZONE)], app="web"))
    assert left(new(app="db"), there, neighbours) == {"w2"}
    assert left(new(app="web"), there, neighbours) == {"w0", "w1", "w2"}
    assert left(new(app="db", namespace="other"), there, neighbours) == {"w0", "w1", "w2"}
    assert left(new(app="db"), there, neighbours, without=["x"]) == {"w0", "w1", "w2"}
    neighbours.went("x")
    assert not neighbours.is_counting


def test_a_pod_keeps_away_from_those_that_its_anti_affinity_names():
    there = hosts("a", "a", "b", None)
    rules = PodRules(anti_affinity=(Term(scope(DB), ZONE),))
    others = [pod("x", "w1", app="db"), pod("y", "w2", app="web")]
    assert left(new(rules), there, everyone=others) == {"w2", "w3"}
    everywhere = PodRules(anti_affinity=(Term(scope(DB, namespaces=None), ZONE),))
    others.append(pod("z", "w2", "other", app="db"))
    assert left(new(everywhere), there, everyone=others) == {"w3"}


def test_affinity_wants_pods_that_all_terms_select_and_the_label():
    there = hosts("a", "a", "b", None)
    front = Requirement("tier", "Exists")
    rules = PodRules(affinity=(Term(scope(DB), ZONE), Term(scope(front), ZONE)))
    others = [pod("x", "w2", app="db", tier="1"), pod("y", "w0", app="db")]
    assert left(new(rules), there, everyone=others) == {"w2"}
    assert left(new(rules), there, everyone=others, without=["x"]) == set()


def test_the_first_pod_of_those_that_want_to_be_together_may_go_anywhere_with_the_label():
    there = hosts("a", "b", None)
    rules = PodRules(affinity=(Term(scope(DB), ZONE),))
    assert left(new(rules, app="db"), there) == {"w0", "w1"}
    assert left(new(rules, app="web"), there) == set()


def test_a_spread_pod_goes_where_the_skew_stays_small():
    there = hosts("a", "a", "b", None)
    rule = Spread(scope(DB, counts_leaving=False), ZONE)
    others = [pod("x", "w0", app="db"), pod("y", "w2", app="db", is_leaving=True)]
    assert left(new(PodRules(spread=(rule,)), app="db"), there, everyone=others) == {"w2"}
    # A pod that does not count itself makes it no worse.
    assert left(new(PodRules(spread=(rule,)), app="web"), there, everyone=others) == {
        "w0",
        "w1",
        "w2",
    }


def test_hosts_that_are_not_for_the_pod_make_no_domain():
    there = hosts("a", "b") | {"t": HostFacts("t", {ZONE: "c"}, (Taint("k", "", "NoSchedule"),))}
    others = [pod("x", "w0", app="db"), pod("y", "w1", app="db")]
    spread = Spread(scope(DB, counts_leaving=False), ZONE)
    assert left(new(PodRules(spread=(spread,)), app="db"), there, everyone=others) == {"t"}
    honours = Spread(spread.scope, ZONE, honours_taints=True)
    found = left(new(PodRules(spread=(honours,)), app="db"), there, everyone=others)
    assert found >= {"w0", "w1"}
    chosen = HostRequirements(selector=((ZONE, "a"),))
    found = new(PodRules(spread=(spread,)), app="db", requirements=chosen)
    assert "w0" in left(found, there, everyone=others)


def test_too_few_domains_count_as_an_empty_one():
    there = hosts("a", "b")
    others = [pod("x", "w0", app="db"), pod("y", "w1", app="db")]
    few = Spread(scope(DB, counts_leaving=False), ZONE, domains_min=3)
    assert left(new(PodRules(spread=(few,)), app="db"), there, everyone=others) == set()


def random_rules(rng):
    def term():
        namespaces = rng.choice([("ns",), ("ns", "other"), None])
        wanted = Requirement("app", rng.choice(["In", "NotIn"]), (rng.choice(["db", "web"]),))
        return Term(scope(wanted, namespaces=namespaces), rng.choice([ZONE, NAME]))

    some = [tuple(term() for _ in range(rng.choice([0, 0, 1, 2]))) for _ in range(2)]
    spread = tuple(
        Spread(scope(DB, counts_leaving=False), ZONE, rng.randrange(1, 3))
        for _ in range(rng.choice([0, 1]))
    )
    return PodRules(*some, spread)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_up_to_date_says_the_same_as_counting_anew(seed):
    rng = random.Random(seed)
    there = hosts("a", "a", "b", None, "c")
    kept, pods = Neighbours(), {}
    for number in range(40):
        if pods and rng.random() < 0.3:
            uid = rng.choice(sorted(pods))
            del pods[uid]
            kept.went(uid)
        else:
            uid = rng.choice([f"p{number}", *sorted(pods)])
            repels = random_rules(rng).anti_affinity if rng.random() < 0.2 else ()
            before = pods.get(uid)
            pods[uid] = pod(
                uid,
                before.host if before else rng.choice(sorted(there)),
                rng.choice(["ns", "other"]),
                before.repels if before else repels,
                rng.random() < 0.2,
                app=rng.choice(["db", "web"]),
            )
            kept.came(pods[uid])
        asked = new(random_rules(rng), rng.choice(["ns", "other"]), app=rng.choice(["db", "web"]))
        without = rng.sample(sorted(pods), min(len(pods), rng.randrange(3)))
        everyone = list(pods.values())
        fresh = Neighbours()
        for one in everyone:
            if one.uid not in without:
                fresh.came(one)
        rest = [one for one in everyone if one.uid not in without]
        assert left(asked, there, kept, everyone, without) == left(asked, there, fresh, rest)


def test_a_pod_that_others_want_to_be_near_is_help_once():
    neighbours, there = Neighbours(), hosts("a")
    rules = PodRules(affinity=(Term(scope(DB), ZONE),))
    assert left(new(rules, app="web"), there, neighbours) == set()
    assert neighbours.came(pod("x", "w0", app="db"))
    assert not neighbours.came(pod("x", "w0", app="db"))
    assert not neighbours.came(pod("y", "w0", app="web"))
