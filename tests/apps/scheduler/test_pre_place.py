"""Gated pods in the scheduler's step: decided by us, bound by a kube-scheduler."""

from dataclasses import replace

from tests.apps.scheduler.counting import CountingFleet
from tests.apps.scheduler.test_step import host, lead, messages, turn
from tests.apps.scheduler.test_step import pod as plain_pod

from numalign.apps.scheduler import events, pre_place
from numalign.apps.scheduler.model import PrePlacing, State
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.scheduling.constraints import HostFacts, HostRequirements
from numalign.wire.kubernetes.scheduling import VOLUME_CLAIMS, ClusterPod

RELEASED = events.CountAttempt("released")
REFUSED_THERE = "0/2 nodes are available: 1 volume elsewhere"
OWNER = "ReplicaSet/db"


def pod(uid: str, **more: object) -> ClusterPod:
    return replace(plain_pod(uid), is_gated=True, awaits_us=True, scheduler="any", **more)


def opened(uid: str, where: str, **more: object) -> ClusterPod:
    return replace(pod(uid), is_gated=False, awaits_us=False, pinned=where, **more)


def cluster(*hosts: HostFacts, room: int = 2, open_after: float | None = None) -> State:
    state = State(CountingFleet(room), pre=PrePlacing(open_after))
    step(state, events.PodsListed((), 0))
    step(state, events.HostsListed(hosts, 0))
    step(state, events.TopologiesListed((), 0))
    lead(state, events.PodsListed((), 0))
    return state


def released(state: State, uid: str) -> str:
    """Sees a gated pod, opens its gate, and says for which host."""
    step(state, events.PodSeen(pod(uid), 1))
    (release,) = turn(state)
    assert isinstance(release, events.Release)
    step(state, events.BindEnded(uid, release.host, events.BindOutcome.BOUND, "", 1))
    return release.host


def test_a_gated_pod_is_released_to_one_host_and_counts_there_at_once():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a"), 1))
    step(state, events.PodSeen(pod("b"), 1))
    assert turn(state) == [events.Release(pod("a"), "w1")]
    (event, condition) = turn(state)
    assert isinstance(event, events.TellEvent)
    assert event.note == "numalign: of 1 host: 1 is full"
    assert condition == events.SetCondition(pod("b"), "Unschedulable", event.note)
    end = events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 1)
    assert step(state, end) == [RELEASED]


def test_other_gates_other_schedulers_pods_and_leaving_pods_are_not_ours():
    state = cluster(host("w1"))
    for other in (
        replace(pod("two-gates"), awaits_us=False),
        replace(pod("open"), is_gated=False, awaits_us=False, scheduler="numalign"),
        replace(pod("leaving"), is_deleted=True),
    ):
        step(state, events.PodSeen(other, 1))
    assert turn(state) == []


def test_an_opened_pod_holds_its_room_after_a_restart_and_until_it_is_bound_or_gone():
    state = cluster(host("w1"), room=1)
    step(state, events.PodsListed((opened("a", "w1"), pod("b")), 1))
    assert state.fleet.on["w1"] == {"a"}
    assert len(turn(state, 1)) == 2  # the event and the condition of b
    step(state, events.PodSeen(replace(opened("a", "w1"), host="w1"), 2))
    assert state.fleet.on["w1"] == {"a"}
    assert state.assumed == set()
    step(state, events.PodGone("a", 5))
    assert turn(state, 5) == [events.Release(pod("b"), "w1")]


def test_a_deleted_pod_frees_its_room_before_it_is_gone():
    state = cluster(host("w1"), room=1)
    released(state, "a")
    step(state, events.PodSeen(opened("a", "w1"), 1))
    step(state, events.PodSeen(opened("a", "w1", is_deleted=True), 2))
    assert state.fleet.on["w1"] == set()


def test_an_unclear_answer_counts_as_opened_if_the_pod_says_so():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a"), 1))
    turn(state)
    unclear = events.BindUnclear("a", "w1", "no answer", 1)
    assert step(state, unclear) == [events.ReadUnclearBind(pod("a"), unclear)]
    read = events.UnclearBindRead(unclear, opened("a", "w1"), "", 1)
    assert step(state, read) == [RELEASED]
    assert state.fleet.on["w1"] == {"a"}


def test_a_pod_that_another_leader_pinned_elsewhere_keeps_that_room():
    state = cluster(host("w1"), host("w2"))
    step(state, events.PodSeen(pod("a"), 1))
    (release,) = turn(state)
    other = "w2" if release.host == "w1" else "w1"
    unclear = events.BindUnclear("a", release.host, "conflict", 1)
    step(state, unclear)
    step(state, events.UnclearBindRead(unclear, opened("a", other), "", 1))
    assert state.placed == {"a": other}
    assert turn(state, 9) == []


def test_what_the_scheduler_cannot_place_is_made_anew_elsewhere_after_a_while():
    state = cluster(host("w1"), host("w2"), room=1)
    step(state, events.PodSeen(replace(pod("a"), owner=OWNER), 0))
    (release,) = turn(state, 0)
    first = release.host
    other = "w2" if first == "w1" else "w1"
    step(state, events.BindEnded("a", first, events.BindOutcome.BOUND, "", 0))
    stuck = opened("a", first, owner=OWNER, unschedulable=REFUSED_THERE)
    step(state, events.PodSeen(stuck, 1))
    assert next_turn_at(state, 1) == 11
    assert turn(state, 10) == []
    told, counted, recreate = turn(state, 11)
    assert recreate == events.Recreate(stuck)
    assert counted == events.CountAttempt("not_followed")
    assert told.note.startswith(
        f"numalign: the kube-scheduler cannot place it on {first}: {REFUSED_THERE}"
    )
    assert state.fleet.on[first] == set()
    # Seen once more before it goes, it does not get its room back.
    step(state, events.PodSeen(replace(stuck, is_deleted=True), 12))
    assert state.fleet.on[first] == set()
    step(state, events.PodGone("a", 12))
    for uid in ("next", "last"):
        step(state, events.PodSeen(replace(pod(uid), owner=OWNER), 13))
    (again,) = turn(state, 13)
    assert again.host == other
    (why, _) = turn(state, 13)
    assert "1 avoided: the kube-scheduler did not place such a pod there" in why.note
    # Not for ever.
    step(state, events.BindEnded("next", other, events.BindOutcome.BOUND, "", 13))
    assert [e.host for e in turn(state, 320) if isinstance(e, events.Release)] == [first]


def test_another_owner_may_still_go_to_an_avoided_host():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(replace(pod("a"), owner=OWNER), 0))
    turn(state, 0)
    step(state, events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 0))
    step(state, events.PodSeen(opened("a", "w1", owner=OWNER, unschedulable=REFUSED_THERE), 0))
    turn(state, 10)
    step(state, events.PodSeen(replace(pod("b"), owner="ReplicaSet/web"), 11))
    assert [e.host for e in turn(state, 11)] == ["w1"]


def test_a_bare_pod_stays_with_an_event_and_its_room_is_free():
    state = cluster(host("w1"), room=1)
    released(state, "a")
    stuck = opened("a", "w1", unschedulable=REFUSED_THERE)
    step(state, events.PodSeen(stuck, 1))
    told, _ = turn(state, 11)
    assert "it has no controller" in told.note
    step(state, events.PodSeen(replace(stuck, version="2"), 12))
    assert turn(state, 60) == []
    step(state, events.PodSeen(pod("b"), 60))
    assert turn(state, 60) == [events.Release(pod("b"), "w1")]


def test_a_pod_that_cannot_be_deleted_is_tried_again():
    state = cluster(host("w1"))
    step(state, events.PodSeen(opened("a", "w1", owner=OWNER, unschedulable=REFUSED_THERE), 0))
    assert any(isinstance(e, events.Recreate) for e in turn(state, 10))
    step(state, events.RecreateFailed("a", "no answer", 11))
    assert any(isinstance(e, events.Recreate) for e in turn(state, 31))


def test_neither_our_own_words_nor_a_nomination_are_taken_for_a_refusal():
    state = cluster(host("w1"))
    ours = opened("a", "w1", owner=OWNER, unschedulable="numalign: of 1 host: 1 is full")
    preempting = opened("b", "w1", owner=OWNER, unschedulable=REFUSED_THERE, nominated="w1")
    for one in (ours, preempting):
        step(state, events.PodSeen(one, 0))
    assert turn(state, 1_000) == []


def test_a_scheduler_that_follows_after_all_is_left_alone():
    state = cluster(host("w1"))
    stuck = opened("a", "w1", owner=OWNER, unschedulable=REFUSED_THERE)
    step(state, events.PodSeen(stuck, 0))
    step(state, events.PodSeen(replace(stuck, host="w1", unschedulable=None), 5))
    assert turn(state, 1_000) == []


def test_rules_between_pods_are_handed_over_and_claims_are_not():
    state = cluster(host("w1"))
    spreading = replace(pod("a"), requirements=HostRequirements(unsupported=("spread",)))
    step(state, events.PodSeen(spreading, 1))
    told, counted, opens = turn(state)
    assert opens == events.OpenGate(spreading)
    assert counted == events.CountAttempt("handed_over")
    assert "spread, which only the kube-scheduler looks after" in told.note
    assert state.placed == {}
    step(state, events.PodSeen(replace(spreading, is_gated=False, awaits_us=False), 2))
    claiming = replace(pod("b"), requirements=HostRequirements(unsupported=(VOLUME_CLAIMS,)))
    step(state, events.PodSeen(claiming, 2))
    assert turn(state, 2) == [events.Release(claiming, "w1")]


def test_a_gate_is_opened_after_a_time_even_by_a_replica_that_does_not_lead():
    state = State(CountingFleet(), pre=PrePlacing(30.0))
    step(state, events.PodsListed((pod("a"),), 5))
    assert next_turn_at(state, 5) == 35
    assert turn(state, 34) == []
    told, counted, opens = turn(state, 35)
    assert opens == events.OpenGate(pod("a"))
    assert counted == events.CountAttempt("opened")
    assert "nobody decided about the pod for 30 s" in told.note
    assert turn(state, 36) == []  # once, and again only after the same time
    assert len(turn(state, 65)) == 3


def test_a_gate_stays_shut_where_somebody_decided_or_no_time_was_given():
    state = cluster(host("w1"), room=0, open_after=30.0)
    waiting = replace(pod("a"), unschedulable="numalign: of 1 host: 1 is full")
    step(state, events.PodSeen(waiting, 1))
    assert messages(turn(state)) == ["numalign: of 1 host: 1 is full"]
    assert not any(isinstance(e, events.OpenGate) for e in turn(state, 1_000))
    never = State(CountingFleet(), pre=PrePlacing())
    step(never, events.PodsListed((pod("a"),), 5))
    assert next_turn_at(never, 1e9) is None


def test_only_the_leader_gives_up_on_a_scheduler():
    state = State(CountingFleet(), pre=PrePlacing())
    stuck = opened("a", "w1", owner=OWNER, unschedulable=REFUSED_THERE)
    step(state, events.PodsListed((stuck,), 0))
    assert turn(state, 1_000) == []


def test_the_wait_grows_with_each_failure_of_an_owner():
    state = cluster(host("w1"), host("w2"))
    waits = []
    now = 0.0
    for number in range(7):
        uid = f"p{number}"
        step(state, events.PodSeen(opened(uid, "w1", owner=OWNER, unschedulable="no"), now))
        at = next_turn_at(state, now)
        waits.append(at - now)
        turn(state, at)
        step(state, events.PodGone(uid, at))
        now = at
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert max(waits) == pre_place.FOLLOW_SECONDS[1]
