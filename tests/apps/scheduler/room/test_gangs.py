"""Gangs: hosts for all of them in one decision, or for none, and nothing held meanwhile."""

import random
from dataclasses import replace

import pytest
from tests.apps.scheduler.test_step import cluster, host, messages, pod

from numalign.apps.scheduler import events
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.between_pods.gangs import RELEASE_SECONDS, GangRef, GroupMinimum
from numalign.core.cluster.between_pods.rules import PodRules, Scope, Term
from numalign.core.cluster.scheduling.constraints import Requirement


def member(uid, gang="g", minimum=3, **more):
    return pod(uid, gang=GangRef(f"ns/{gang}", minimum), **more)


def seen(state, *pods, now=1.0):
    for one in pods:
        step(state, events.PodSeen(one, now))


def turns(state, now=2.0):
    """Takes turns until nobody is left to be tried."""
    effects = []
    while (at := next_turn_at(state, now)) is not None and at <= now:
        effects += step(state, events.Turn(now))
    return effects


def bound(effects):
    return sorted((e.pod.pod.uid, e.host) for e in effects if isinstance(e, events.Bind))


def settle(state, effects, now=3.0):
    """All binds succeed, one after the other per host; everything that was bound."""
    found, todo = [], [e for e in effects if isinstance(e, events.Bind)]
    while todo:
        one = todo.pop(0)
        found.append((one.pod.pod.uid, one.host))
        outcome = events.BindOutcome.BOUND
        more = step(state, events.BindEnded(one.pod.pod.uid, one.host, outcome, "", now))
        todo += [e for e in more if isinstance(e, events.Bind)]
    return sorted(found)


def test_a_gang_waits_until_all_its_pods_are_there_and_goes_together():
    state = cluster(host("w1"), host("w2"), room=2)
    seen(state, member("a"), member("b"))
    effects = turns(state)
    assert not bound(effects)
    assert set(messages(effects)) == {
        "waits for the rest of its gang ns/g, which needs 3 pods at once"
    }
    assert not state.placed
    seen(state, member("c"), now=3)
    assert len(settle(state, turns(state, 3))) == 3


def test_a_gang_that_does_not_fit_holds_nothing_and_says_why_once():
    state = cluster(host("w1"), room=2)
    seen(state, member("a"), member("b"), member("c"))
    effects = turns(state)
    assert not bound(effects)
    assert set(messages(effects)) == {
        "the gang ns/g needs 3 pods at once, and only 2 of them find a host: of 1 host: 1 is full"
    }
    assert len(messages(effects)) == 3, "each of its pods says so"
    assert not state.placed
    assert state.fleet.on == {"w1": set()}
    assert state.use["w1"].used == {}
    # The room is there for others, also for pods that look the same.
    seen(state, pod("x"), pod("y"), now=4)
    assert len(settle(state, turns(state, 4))) == 2


def test_more_than_the_minimum_get_hosts_if_there_are_any():
    state = cluster(host("w1"), room=4)
    seen(state, *(member(uid, minimum=2) for uid in "abcde"))
    assert len(settle(state, turns(state))) == 4
    assert len(state.queue) == 1


def test_a_gang_that_finds_room_later_goes_then():
    state = cluster(host("w1"), room=3)
    seen(state, pod("x", host="w1"), member("a"), member("b"), member("c"))
    assert not bound(turns(state))
    step(state, events.PodGone("x", 10))
    assert [uid for uid, _ in settle(state, turns(state, 10))] == ["a", "b", "c"]


def test_two_gangs_that_have_room_for_one_do_not_share_it():
    state = cluster(host("w1"), host("w2"), room=2)
    for number in range(3):
        seen(state, member(f"a{number}", "a"), member(f"b{number}", "b"))
    found = [uid for uid, _ in settle(state, turns(state))]
    assert {uid[0] for uid in found} == {"a"}
    assert len(found) == 3


def test_a_member_whose_bind_is_refused_is_tried_again_alone():
    state = cluster(host("w1"), room=3)
    seen(state, member("a"), member("b"), member("c"))
    (first,) = [e for e in turns(state) if isinstance(e, events.Bind)]
    refused = events.BindOutcome.REFUSED
    more = step(state, events.BindEnded(first.pod.pod.uid, "w1", refused, "no", 3))
    settle(state, more)
    assert bound(turns(state, 20)) == [(first.pod.pod.uid, "w1")]


def test_a_gang_without_a_minimum_is_told_what_to_write():
    state = cluster(host("w1"))
    seen(state, pod("a", gang=GangRef("ns/g", problem="found none as minimum, expected a number")))
    assert messages(turns(state)) == ["found none as minimum, expected a number"]


def test_the_largest_minimum_counts_where_pods_disagree():
    state = cluster(host("w1"), room=4)
    seen(state, member("a", minimum=1), member("b", minimum=3))
    assert not bound(turns(state))


def test_a_pod_group_of_the_server_says_how_many():
    state = cluster(host("w1"), room=4)
    grouped = [pod(uid, gang=GangRef("ns/pg", is_object=True)) for uid in "ab"]
    seen(state, *grouped)
    assert "PodGroups of the cluster are not known yet" in messages(turns(state))[0]
    step(state, room_events.GroupsListed((), 10))
    assert set(messages(turns(state, 10))) == {"waits for the PodGroup ns/pg, which is not there"}
    step(state, room_events.GroupSeen(GroupMinimum("ns/pg", 3), 20))
    assert (
        messages(turns(state, 20))[-1]
        == "waits for the rest of its gang ns/pg, which needs 3 pods at once"
    )
    step(state, room_events.GroupSeen(GroupMinimum("ns/pg", 2), 30))
    assert len(settle(state, turns(state, 30))) == 2


def test_a_group_with_the_basic_policy_is_no_gang():
    state = cluster(host("w1"), room=1)
    step(state, room_events.GroupsListed((GroupMinimum("ns/pg", 1),), 0))
    seen(state, *(pod(uid, gang=GangRef("ns/pg", is_object=True)) for uid in "ab"))
    assert bound(turns(state)) == [("a", "w1")]


def test_members_that_may_not_share_a_host_get_different_ones():
    apart = Term(Scope(frozenset({"ns"}), (Requirement("app", "In", ("g",)),)), "name")
    rules = PodRules(anti_affinity=(apart,))
    hosts = [host(f"w{n}", labels={"name": f"w{n}"}) for n in range(3)]
    state = cluster(*hosts, room=4)
    seen(state, *(member(uid, rules=rules, labels={"app": "g"}) for uid in "abc"))
    found = settle(state, turns(state))
    assert len({where for _, where in found}) == 3
    state = cluster(*hosts[:2], room=4)
    seen(state, *(member(uid, rules=rules, labels={"app": "g"}) for uid in "abc"))
    assert "the gang ns/g needs 3 pods at once, and only 2 of them" in messages(turns(state))[0]
    assert not state.neighbours.repels, "what was tried leaves no trace"


def half(name, where, since=1.0):
    """A gang of three with two pods that run."""
    return [
        member(f"{name}0", name, host=where, owner="Job/x"),
        member(f"{name}1", name, host=where, owner="Job/x"),
        member(f"{name}2", name, owner="Job/x"),
    ]


def retried(state, now):
    step(state, events.HostSeen(host("w1", labels={"now": str(now)}), now))
    return turns(state, now)


def test_of_two_gangs_with_half_of_their_pods_each_one_gives_its_room_back():
    state = cluster(host("w1"), host("w2"), room=2)
    seen(state, *half("a", "w1"), *half("b", "w2"))
    assert not [e for e in turns(state) if isinstance(e, room_events.Evict)]
    retried(state, 20)
    later = retried(state, 30 + RELEASE_SECONDS)
    going = sorted(e.victim.pod.uid for e in later if isinstance(e, room_events.Evict))
    assert going == ["b0", "b1"]
    for uid in going:
        step(state, events.PodGone(uid, 400 + RELEASE_SECONDS))
    found = bound(turns(state, 400 + RELEASE_SECONDS))
    assert found == [("a2", "w2")]


def test_one_gang_with_too_few_pods_is_left_alone():
    state = cluster(host("w1"), room=2)
    seen(state, *half("a", "w1"))
    turns(state)
    later = retried(state, 30 + RELEASE_SECONDS)
    assert not [e for e in later if isinstance(e, room_events.Evict)]


@pytest.mark.parametrize("seed", range(30))
def test_gangs_are_whole_or_absent_whatever_comes_and_goes(seed):
    rng = random.Random(seed)
    state = cluster(*(host(f"w{n}") for n in range(3)), room=3)
    minimum = {"a": 2, "b": 3, "c": 4}
    alive = {}
    for number, now in enumerate(range(2, 40)):
        name = rng.choice([*minimum, ""])
        one = member(f"{name}{number}", name, minimum[name]) if name else pod(f"x{number}")
        alive[one.pod.uid] = one
        seen(state, one, now=now)
        before = {n: _placed(state, n) for n in minimum}
        settle(state, turns(state, now * 10.0), now)
        for n, least in minimum.items():
            assert _placed(state, n) in (before[n], *range(least, 10)), "some, but too few, went"
        for name_of, where in state.placed.items():
            assert name_of in state.fleet.on[where]
        assert sum(len(on) for on in state.fleet.on.values()) == len(state.placed)
        if rng.random() < 0.3:
            # Whole gangs end, as jobs do.
            ending = rng.choice([*minimum, "x"])
            for uid in [uid for uid in alive if uid.startswith(ending)]:
                step(state, events.PodGone(uid, now))
                del alive[uid]


def _placed(state, name):
    return sum(1 for uid in state.placed if uid.startswith(name))


def test_a_pod_that_changes_its_gang_counts_in_the_new_one_alone():
    state = cluster(host("w1"), room=4)
    seen(state, member("a", "g", 2), member("b", "other", 2))
    turns(state)
    moved = replace(member("b", "other", 2), gang=GangRef("ns/g", 2))
    seen(state, moved, now=9)
    step(state, events.HostSeen(host("w1", labels={"x": "1"}), 10))
    assert len(settle(state, turns(state, 10))) == 2
    assert list(state.gangs.members) == [(False, "ns/g")]
