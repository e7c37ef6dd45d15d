"""Room for pods of higher priority: nominated, made by evictions, held, and given up."""

from dataclasses import replace

from tests.apps.scheduler.test_step import cluster, host, lead, messages, pod, turn

from numalign.apps.scheduler import events
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.step import step
from numalign.core.cluster.between_pods.victims import Budget

ACCEPTED = room_events.EvictionOutcome.ACCEPTED
REFUSED = room_events.EvictionOutcome.REFUSED


def full(*low, room=2, budgets=(), hosts=("w1",)):
    """A cluster whose hosts are full of these pods, bound in their order."""
    state = cluster(*(host(name) for name in hosts), room=room)
    step(state, room_events.BudgetsListed(tuple(budgets), 0))
    for one in low:
        step(state, events.PodSeen(one, 1))
    return state


def on(uid, name="w1", **more):
    return pod(uid, host=name, **more)


def try_high(state, now=2.0, **more):
    high = pod("high", priority=10, **more)
    step(state, events.PodSeen(high, now))
    return high, turn(state, now)


def wanted(effects, kind):
    return [one for one in effects if isinstance(one, kind)]


def made(state, high, now=3.0):
    """The nomination is written: the first evictions."""
    return step(state, room_events.NominationWritten(high.pod.uid, "w1", "", now))


def evicted(state, victim, outcome=ACCEPTED, now=3.0):
    error = "" if outcome is ACCEPTED else "would violate the budget"
    return step(state, room_events.EvictionEnded("high", victim, outcome, error, now))


def test_a_pod_of_higher_priority_evicts_one_of_lower_and_takes_its_place():
    state = full(on("a", priority=5), on("b", priority=3))
    high, effects = try_high(state)
    assert wanted(effects, room_events.Nominate) == [room_events.Nominate(high, "w1")]
    assert not wanted(effects, room_events.Evict), "before the nomination is written nobody ends"
    assert messages(effects) == [
        "of 1 host: 1 is full; evicts 1 pod of lower priority from w1: ns/pod-b"
    ]
    (evict,) = made(state, high)
    assert (evict.uid, evict.victim.pod.uid) == ("high", "b")
    told = evicted(state, "b")
    assert messages(told) == [
        "evicted from w1 to make room for ns/pod-high, whose priority is 10 and not 3"
    ]
    step(state, events.PodSeen(replace(on("b", priority=3), is_deleted=True), 4))
    assert turn(state, 4) == [], "the victim still holds its place"
    step(state, events.PodGone("b", 5))
    assert turn(state, 5) == [events.Bind(high, "w1")]
    assert not state.room.nominations
    assert not state.room.held


def test_equal_and_higher_pods_are_no_victims():
    state = full(on("a", priority=10), on("b", priority=11))
    _, effects = try_high(state)
    assert messages(effects) == ["of 1 host: 1 is full"]


def test_pods_that_must_not_be_evicted_are_no_victims():
    """Nor one that is being bound, nor one that only its host can end."""
    state = full(on("static", is_mirror=True), on("a", priority=99))
    _, effects = try_high(state)
    assert messages(effects) == [
        "of 1 host: 1 is full; evicting pods of lower priority does not help"
    ]


def test_a_pod_that_never_preempts_waits():
    state = full(on("a"), on("b", priority=1))
    _, effects = try_high(state, preempts=False)
    assert messages(effects) == ["of 1 host: 1 is full"]


def test_nobody_is_evicted_before_the_budgets_are_known():
    state = full(on("a"), on("b", priority=1))
    state.synced.discard("budgets")
    _, effects = try_high(state)
    assert not wanted(effects, room_events.Nominate)
    state = full(on("a"), on("b", priority=1))
    _, effects = try_high(state)
    assert wanted(effects, room_events.Nominate)


def test_a_budget_protects_its_pods_and_one_that_allows_more_wakes_those_who_wait():
    none = Budget("ns/b", "ns", (), 0)
    state = full(on("a"), on("b"), budgets=[none])
    high, effects = try_high(state)
    assert messages(effects) == [
        "of 1 host: 1 is full; evicting pods of lower priority does not help as far as "
        "PodDisruptionBudgets allow it"
    ]
    step(state, room_events.BudgetSeen(replace(none, allowed=1), 9))
    assert wanted(turn(state, 9), room_events.Nominate) == [room_events.Nominate(high, "w1")]


def test_a_pod_with_two_budgets_is_left_alone():
    budgets = [Budget("ns/1", "ns", (), 5), Budget("ns/2", "ns", (), 5)]
    state = full(on("a"), on("b"), budgets=budgets)
    _, effects = try_high(state)
    assert not wanted(effects, room_events.Nominate)


def test_the_room_is_held_against_equal_and_lower_pods_until_it_is_taken():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    for one in (pod("low"), pod("equal", priority=10)):
        step(state, events.PodSeen(one, 4))
    step(state, events.PodGone("a", 5))
    first = turn(state, 5)
    assert first == [events.Bind(high, "w1")]


def test_a_lower_pod_finds_no_place_in_room_that_is_held():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    state.fleet.on["w1"].discard("a")  # free by what the host says, before its end is told
    step(state, events.PodSeen(pod("low"), 4))
    effects = turn(state, 4)
    assert messages(effects) == ["of 1 host: 1 room that is held for a pod of higher priority"]
    step(state, events.PodGone("high", 5))
    assert turn(state, 5) == [events.Bind(pod("low"), "w1")]


def test_room_that_is_left_beside_the_held_one_may_be_used():
    state = full(on("a"), on("b", priority=1), on("c", priority=1), room=3)
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    state.fleet.room = 4
    step(state, events.PodSeen(pod("low"), 4))
    assert turn(state, 4) == [events.Bind(pod("low"), "w1")]


def test_a_still_higher_pod_may_take_the_held_room():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    top = pod("top", priority=20)
    step(state, events.PodSeen(top, 4))
    step(state, events.PodGone("a", 5))
    assert turn(state, 5) == [events.Bind(top, "w1")]
    effects = turn(state, 5)
    assert wanted(effects, room_events.Nominate) == [room_events.Nominate(high, "w1")]


def test_a_refused_eviction_ends_the_attempt_and_the_next_one_spares_that_pod():
    state = full(on("a", priority=1), on("b", priority=2))
    high, _ = try_high(state)
    (evict,) = made(state, high)
    assert evict.victim.pod.uid == "a"
    effects = evicted(state, "a", REFUSED)
    assert wanted(effects, room_events.Nominate) == [room_events.Nominate(high, "")]
    assert not wanted(effects, room_events.Evict)
    assert not state.room.held
    effects = turn(state, 20)
    assert "ns/pod-b" in messages(effects)[0]


def test_victims_with_a_budget_are_asked_first_so_that_nobody_ends_in_vain():
    budget = Budget("ns/b", "ns", (), 1)
    state = full(on("a"), on("b"), budgets=[])
    step(state, room_events.BudgetsListed((replace(budget, namespace="other"),), 1))
    state.fleet.room = 1  # both must go
    other = pod("z", host="w1")
    other = replace(other, pod=replace(other.pod, namespace="other"))
    step(state, events.PodGone("b", 1))
    step(state, events.PodSeen(other, 1))
    high, _ = try_high(state)
    (evict,) = made(state, high)
    assert evict.victim.pod.uid == "z"
    (_, _, following) = evicted(state, "z")
    assert following.victim.pod.uid == "a"


def test_pods_that_are_leaving_are_waited_for_and_nobody_else_is_evicted():
    state = full(on("a"), replace(on("b"), is_deleted=True))
    high, effects = try_high(state)
    assert messages(effects) == ["of 1 host: 1 is full; waits for pods that are leaving w1"]
    assert made(state, high) == []
    step(state, events.PodGone("b", 4))
    assert turn(state, 4) == [events.Bind(high, "w1")]


def test_a_nomination_that_cannot_be_written_evicts_nobody():
    state = full(on("a"), on("b", priority=1))
    try_high(state)
    effects = step(state, room_events.NominationWritten("high", "w1", "no answer", 3))
    assert not wanted(effects, room_events.Evict)
    assert not state.room.nominations


def test_a_replica_that_leads_no_more_evicts_nobody():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    step(state, events.LeadershipChanged(is_leading=False, now=3))
    assert made(state, high) == []
    assert not state.room.held
    lead(state, events.PodsListed((on("a"), on("b"), high), 4))
    assert wanted(turn(state, 4), room_events.Nominate)


def test_a_pod_that_goes_while_room_is_made_gives_it_back():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    made(state, high)
    step(state, events.PodGone("high", 3))
    assert not state.room.nominations
    assert not wanted(evicted(state, "a"), room_events.Evict)


def test_victims_that_do_not_end_are_not_waited_for_for_ever():
    state = full(on("a"), on("b", priority=1))
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    first = state.room.nominations["high"]
    step(state, events.HostSeen(host("w1", labels={"x": "1"}), 400))
    turn(state, 400)
    assert state.room.nominations["high"] is first
    step(state, events.HostSeen(host("w1", labels={"x": "2"}), 700))
    turn(state, 700)
    assert state.room.nominations["high"] is not first


def test_the_same_search_is_not_repeated_while_nothing_changes():
    state = full(on("a", priority=9), on("b", is_mirror=True), room=1)
    asked = []
    takes = state.fleet.takes

    def counted(*arguments):
        asked.append(arguments)
        return takes(*arguments)

    state.fleet.takes = counted
    try_high(state)
    before = len(asked)
    assert before
    step(state, events.PodSeen(pod("again", priority=10), 3))
    assert "does not help" in messages(turn(state, 3))[0]
    assert len(asked) == before


def test_a_nomination_that_came_to_nothing_is_taken_off_the_pod():
    state = full(on("a"), on("b", priority=20))
    high, _ = try_high(state)
    made(state, high)
    evicted(state, "a")
    step(state, events.PodSeen(pod("top", priority=30), 4))
    step(state, events.PodGone("a", 5))
    turn(state, 5)
    effects = turn(state, 5)
    assert wanted(effects, room_events.Nominate) == [room_events.Nominate(high, "")]
    assert not state.room.held
