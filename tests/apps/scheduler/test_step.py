"""The scheduler's step: events in, effects out."""

from dataclasses import replace

import pytest
from tests.apps.scheduler.counting import CountingFleet

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts, HostRequirements
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes.scheduling import ClusterPod

SCHEDULED = events.CountAttempt("scheduled")
ROOM = {"cpu": 8000, "memory": 8 << 30, "pods": 110}


def pod(uid: str, *, cpu: str = "1", **more: object) -> ClusterPod:
    amounts = {"cpu": Quantity.parse(cpu)}
    core = Pod(uid, f"pod-{uid}", "ns", containers=(Container("c", amounts, amounts),))
    return ClusterPod(core, scheduler="numalign", **more)


def host(name: str, **more: object) -> HostFacts:
    return HostFacts(name, allocatable=ROOM, **more)


def cluster(*hosts: HostFacts, room: int = 2) -> State:
    state = State(CountingFleet(room))
    step(state, events.PodsListed((), 0))
    step(state, events.HostsListed(hosts, 0))
    step(state, events.TopologiesListed((), 0))
    lead(state, events.PodsListed((), 0))
    return state


def lead(state: State, pods: events.PodsListed) -> None:
    (asked,) = step(state, events.LeadershipChanged(is_leading=True, now=pods.now))
    step(state, events.CaughtUp(asked.term, pods, pods.now))


def turn(state: State, now: float = 1) -> list[events.Effect]:
    return step(state, events.Turn(now))


def messages(effects: list[events.Effect]) -> list[str]:
    return [e.note for e in effects if isinstance(e, events.TellEvent)]


def test_a_pod_is_bound_to_a_host_and_counts_there_at_once():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a"), 1))
    step(state, events.PodSeen(pod("b"), 1))
    assert turn(state) == [events.Bind(pod("a"), "w1")]
    assert state.use["w1"].used == {"cpu": 1000}
    (event, condition) = turn(state)
    assert isinstance(event, events.TellEvent)
    assert event.note == "of 1 host: 1 is full"
    assert condition == events.SetCondition(pod("b"), "Unschedulable", "of 1 host: 1 is full")


def test_nothing_is_bound_before_everything_is_known_and_the_lease_is_held():
    state = State(CountingFleet())
    step(state, events.PodSeen(pod("a"), 1))
    step(state, events.HostSeen(host("w1"), 1))
    step(state, events.LeadershipChanged(is_leading=True, now=1))
    assert turn(state) == []
    assert state.missing == ["pods", "hosts", "topologies"]
    step(state, events.PodsListed((pod("a"),), 1))
    step(state, events.HostsListed((host("w1"),), 1))
    step(state, events.TopologiesListed((), 1))
    step(state, events.LeadershipChanged(is_leading=False, now=1))
    assert turn(state) == []
    lead(state, events.PodsListed((pod("a"),), 1))
    assert turn(state) == [events.Bind(pod("a"), "w1")]


def test_a_refused_bind_frees_the_host_and_the_pod_rests():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a"), 1))
    turn(state)
    effects = step(state, events.BindEnded("a", "w1", events.BindOutcome.REFUSED, "no", 1))
    assert state.use["w1"].used == {}
    assert state.fleet.on["w1"] == set()
    assert messages(effects) == ["binding to w1: no"]
    assert turn(state, 1.5) == []
    assert turn(state, 2) == [events.Bind(pod("a"), "w1")]


def test_a_bound_pod_stays_counted_until_it_is_gone():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a"), 1))
    turn(state)
    effects = step(state, events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 1))
    assert messages(effects) == ["Successfully assigned ns/pod-a to w1"]
    assert "a" not in state.queue
    step(state, events.PodSeen(pod("a", host="w1", phase="Running"), 1))
    assert state.assumed == set()
    assert state.fleet.on["w1"] == {"a"}
    step(state, events.PodGone("a", 1))
    assert state.fleet.on["w1"] == set()
    assert state.use["w1"].used == {}


def test_old_news_takes_no_host_away():
    state = cluster(host("w1"))
    step(state, events.PodSeen(pod("a", host="w1"), 1))
    step(state, events.PodSeen(pod("a"), 1))
    assert state.placed == {"a": "w1"}
    assert turn(state) == []


def test_a_watch_that_repeats_itself_binds_once():
    state = cluster(host("w1"))
    for _ in range(3):
        step(state, events.PodSeen(pod("a"), 1))
    assert len(turn(state)) == 1
    step(state, events.PodSeen(pod("a"), 1))
    assert turn(state) == []


def test_a_pod_that_another_bound_elsewhere_counts_there_alone():
    state = cluster(host("w1"), host("w2"))
    step(state, events.PodSeen(pod("a"), 1))
    (bind,) = turn(state)
    assert isinstance(bind, events.Bind)
    other = "w1" if bind.host == "w2" else "w2"
    step(state, events.PodSeen(pod("a", host=other), 1))
    step(state, events.BindEnded("a", bind.host, events.BindOutcome.REFUSED, "already assigned", 1))
    assert state.placed == {"a": other}
    assert state.fleet.on[bind.host] == set()
    assert "a" not in state.queue


def test_an_ended_pod_frees_what_it_held_and_wakes_the_others():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("a", host="w1"), 0))
    step(state, events.PodSeen(pod("b"), 0))
    assert len(turn(state, 0)) == 2
    step(state, events.PodSeen(pod("a", host="w1", phase="Failed"), 5))
    assert turn(state, 5) == [events.Bind(pod("b"), "w1")]


def test_the_same_trouble_is_told_once():
    state = cluster(host("w1"), room=0)
    step(state, events.PodSeen(pod("a"), 0))
    assert len(turn(state, 0)) == 2
    step(state, events.TopologySeen(HostTopology("w1"), 20))
    assert turn(state, 20) == []
    step(state, events.HostSeen(host("w2"), 60))
    assert messages(turn(state, 60)) == ["of 2 hosts: 2 is full"]


def test_a_condition_that_already_says_so_is_not_written_again():
    state = cluster(host("w1"), room=0)
    known = pod("a", unschedulable="of 1 host: 1 is full")
    step(state, events.PodSeen(known, 0))
    (event,) = turn(state, 0)
    assert isinstance(event, events.TellEvent)


def test_pods_of_one_template_are_looked_at_once_as_long_as_nothing_changes():
    state = cluster(host("w1"), room=0)
    calls = []
    choose = state.fleet.choose
    state.fleet.choose = lambda *a: calls.append(a) or choose(*a)
    for uid in "abcd":
        step(state, events.PodSeen(pod(uid), 0))
    while turn(state, 0):
        pass
    assert len(calls) == 1
    assert state.queue.parked == 4


def test_gated_foreign_and_dying_pods_are_not_ours():
    state = cluster(host("w1"))
    step(state, events.PodSeen(pod("a", is_gated=True), 1))
    step(state, events.PodSeen(replace(pod("b"), scheduler="default-scheduler"), 1))
    step(state, events.PodSeen(pod("c", is_deleted=True), 1))
    assert turn(state) == []
    step(state, events.PodSeen(pod("a"), 1))
    assert turn(state) == [events.Bind(pod("a"), "w1")]


def test_foreign_pods_count_where_they_are():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(replace(pod("x", host="w1"), scheduler="default-scheduler"), 1))
    step(state, events.PodSeen(pod("a"), 1))
    assert messages(turn(state)) == ["of 1 host: 1 is full"]


def test_rules_besides_numa_are_honoured_with_their_reasons():
    state = cluster(
        host("w1", is_ready=False), host("w2", labels={"zone": "a"}), host("w3"), host("w4")
    )
    selecting = pod("a", requirements=HostRequirements(selector=(("zone", "a"),)))
    step(state, events.PodSeen(selecting, 1))
    assert turn(state) == [events.Bind(selecting, "w2")]
    step(
        state, events.PodSeen(pod("b", requirements=HostRequirements(selector=(("zone", "b"),))), 1)
    )
    assert messages(turn(state)) == [
        "of 4 hosts: 3 labels do not match the pod's nodeSelector, 1 not ready"
    ]


def test_totals_are_honoured():
    state = cluster(host("w1"), room=9)
    step(state, events.PodSeen(pod("a", cpu="5"), 1))
    turn(state)
    step(state, events.PodSeen(pod("b", cpu="4"), 1))
    assert messages(turn(state)) == [
        "of 1 host: 1 too few CPUs on the whole host (has 3 of 4 free)"
    ]


def test_a_pod_with_rules_that_we_do_not_know_is_refused_in_clear_words():
    state = cluster(host("w1"))
    step(
        state,
        events.PodSeen(pod("a", requirements=HostRequirements(unsupported=("resourceClaims",))), 1),
    )
    (message,) = messages(turn(state))
    assert message.startswith("the pod asks for resourceClaims, which this scheduler does")


def test_higher_priority_goes_first():
    state = cluster(host("w1"), room=1)
    step(state, events.PodSeen(pod("low"), 0))
    step(state, events.PodSeen(pod("high", priority=9), 1))
    assert turn(state) == [events.Bind(pod("high", priority=9), "w1")]


def test_a_list_without_them_makes_things_gone():
    state = cluster(host("w1"), host("w2"), room=1)
    step(state, events.PodSeen(pod("a", host="w1"), 0))
    step(state, events.PodsListed((), 1))
    assert state.placed == {}
    step(state, events.HostsListed((host("w2"),), 1))
    assert list(state.hosts) == ["w2"]
    step(state, events.HostGone("w2", 1))
    step(state, events.PodSeen(pod("b"), 1))
    assert messages(turn(state)) == ["there are no hosts"]


def test_what_a_list_names_as_unreadable_still_stands():
    state = cluster(host("w1"))
    step(state, events.TopologySeen(HostTopology("w1"), 1))
    step(state, events.PodSeen(pod("a", host="w1"), 1))
    step(state, events.PodsListed((), 2, frozenset({"a"})))
    step(state, events.HostsListed((), 2, frozenset({"w1"})))
    step(state, events.TopologiesListed((), 2, frozenset({"w1"})))
    assert state.placed == {"a": "w1"}
    assert state.hosts.keys() == state.topologies.keys() == {"w1"}
    step(state, events.PodsListed((), 3))
    step(state, events.HostsListed((), 3))
    step(state, events.TopologiesListed((), 3))
    assert not state.placed
    assert not state.hosts
    assert not state.topologies


def test_a_pod_that_is_gone_while_it_is_bound_leaves_nothing_behind():
    state = cluster(host("w1"))
    step(state, events.PodSeen(pod("a"), 1))
    turn(state)
    step(state, events.BindEnded("a", "w1", events.BindOutcome.GONE, "not found", 1))
    assert (state.placed, state.assumed, len(state.queue)) == ({}, set(), 0)
    step(state, events.PodSeen(pod("b"), 1))
    turn(state)
    step(state, events.PodGone("b", 1))
    assert step(state, events.BindEnded("b", "w1", events.BindOutcome.BOUND, "", 1)) == [SCHEDULED]
    assert (state.placed, state.assumed, len(state.queue)) == ({}, set(), 0)


def test_an_edited_pod_is_tried_again_at_once():
    state = cluster(host("w1"))
    step(state, events.PodSeen(pod("a", cpu="9"), 1))
    assert len(turn(state)) == 2
    step(state, events.PodSeen(pod("a", cpu="2"), 1.1))
    assert turn(state, 1.1) == [events.Bind(pod("a", cpu="2"), "w1")]


def test_an_elected_replica_binds_only_after_it_has_caught_up():
    state = cluster(host("w1"), room=1)
    step(state, events.LeadershipChanged(is_leading=False, now=1))
    step(state, events.PodSeen(pod("a"), 1))
    assert step(state, events.LeadershipChanged(is_leading=True, now=2)) == [events.CatchUp(2)]
    assert turn(state, 2) == []
    step(state, events.CaughtUp(2, events.PodsListed((pod("a"), pod("b", host="w1")), 3), 3))
    assert state.is_leading
    assert messages(turn(state, 3)) == ["of 1 host: 1 is full"]


def test_a_list_from_before_the_last_election_does_not_count():
    state = cluster(host("w1"))
    step(state, events.PodSeen(pod("a"), 1))
    step(state, events.LeadershipChanged(is_leading=True, now=2))
    step(state, events.LeadershipChanged(is_leading=False, now=3))
    step(state, events.CaughtUp(2, events.PodsListed((pod("a"),), 3), 3))
    assert not state.is_leading
    assert step(state, events.LeadershipChanged(is_leading=True, now=4)) == [events.CatchUp(3)]
    step(state, events.CaughtUp(2, events.PodsListed((pod("a"),), 3), 4))
    assert turn(state, 4) == []
    step(state, events.CaughtUp(3, events.PodsListed((pod("a"),), 5), 5))
    assert turn(state, 5) == [events.Bind(pod("a"), "w1")]


def three_turns(**options) -> tuple[State, list[events.Effect]]:
    state = cluster(host("w1"), room=3)
    for name, value in options.items():
        setattr(state, name, value)
    for uid in "abc":
        step(state, events.PodSeen(pod(uid), 1))
    return state, [effect for _ in range(3) for effect in turn(state)]


def test_the_pods_of_a_host_are_bound_one_after_the_other_in_the_order_of_their_decisions():
    state, effects = three_turns()
    assert effects == [events.Bind(pod("a"), "w1")]
    assert state.placed == {"a": "w1", "b": "w1", "c": "w1"}
    ended = step(state, events.BindEnded("a", "w1", events.BindOutcome.REFUSED, "no", 1))
    assert ended[-1] == events.Bind(pod("b"), "w1")
    assert step(state, events.BindEnded("b", "w1", events.BindOutcome.GONE, "no", 1))[
        -1
    ] == events.Bind(pod("c"), "w1")
    step(state, events.BindEnded("c", "w1", events.BindOutcome.BOUND, "", 1))
    assert state.binds == {}


def test_no_pod_is_decided_while_too_many_binds_are_under_way():
    state, effects = three_turns(binds_max=2)
    assert (effects, len(state.placed)) == ([events.Bind(pod("a"), "w1")], 2)
    assert next_turn_at(state, 1) is None
    step(state, events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 1))
    assert next_turn_at(state, 1) == 1
    turn(state)
    assert state.placed.keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("found", "unreadable", "outcome", "said"),
    [
        (pod("a", host="w1"), "", "scheduled", ["Successfully assigned ns/pod-a to w1"]),
        (pod("a", host="w2"), "", "bind_failed", []),
        (pod("a"), "", "bind_failed", ["binding to w1: timed out"]),
        (pod("z"), "", "bind_failed", []),
        (None, "", "bind_failed", []),
        (None, "no JSON", "bind_failed", ["binding to w1: timed out; and then: no JSON"]),
    ],
)
def test_an_unclear_bind_keeps_its_host_until_the_pod_was_read(found, unreadable, outcome, said):
    state = cluster(host("w1"), room=2)
    for uid in "ab":
        step(state, events.PodSeen(pod(uid), 1))
    assert [*turn(state), *turn(state)] == [events.Bind(pod("a"), "w1")]
    unclear = events.BindUnclear("a", "w1", "timed out", 1)
    assert step(state, unclear) == [events.ReadUnclearBind(pod("a"), unclear)]
    assert state.placed == {"a": "w1", "b": "w1"}
    counted, *told, last = step(state, events.UnclearBindRead(unclear, found, unreadable, 2))
    assert (counted, last) == (events.CountAttempt(outcome), events.Bind(pod("b"), "w1"))
    assert messages(told) == said
    assert state.placed.get("a") == (found.host or None if found and not unreadable else None)


def extender(*pods: ClusterPod, room: int = 2) -> State:
    state = State(CountingFleet(room), "", is_extender=True)
    step(state, events.HostsListed((host("w1"), host("w2")), 0))
    step(state, events.PodsListed(pods, 0))
    return state


def wanted(ticket: int, uid: str, name: str = "w1") -> events.BindWanted:
    return events.BindWanted(ticket, uid, "ns", f"pod-{uid}", name, 1)


@pytest.mark.parametrize(
    ("outcome", "error", "placed"),
    [(events.BindOutcome.BOUND, "", {"a": "w1"}), (events.BindOutcome.REFUSED, "no", {})],
)
def test_a_bind_of_the_extender_is_answered_and_told_to_nobody_else(outcome, error, placed):
    state = extender(pod("a"))
    assert step(state, wanted(1, "a")) == [events.Bind(pod("a"), "w1")]
    assert state.placed == {"a": "w1"}
    counted = events.CountAttempt("bind_failed" if error else "scheduled")
    assert step(state, events.BindEnded("a", "w1", outcome, error, 2)) == [
        counted,
        events.AnswerBind(1, error),
    ]
    assert (state.placed, state.asked_binds) == (placed, {})


def test_a_bind_that_is_asked_for_twice_is_made_once_and_answered_twice():
    state = extender(pod("a"))
    step(state, wanted(1, "a"))
    assert step(state, wanted(2, "a")) == []
    assert step(state, wanted(3, "a", "w2")) == [
        events.AnswerBind(3, "the pod is being bound to w1")
    ]
    ended = events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 2)
    assert step(state, ended) == [SCHEDULED, events.AnswerBind(1, ""), events.AnswerBind(2, "")]


def test_a_bind_that_another_one_has_outrun_is_counted_and_answered():
    state = extender(pod("a"), pod("b"), room=1)
    step(state, wanted(1, "a"))
    answer = events.AnswerBind(2, "w1 does not take it any more: is full")
    assert step(state, wanted(2, "b")) == [events.CountAttempt("outrun"), answer]
    assert state.placed == {"a": "w1"}


def test_a_pod_that_the_watch_has_not_told_of_is_asked_for_before_it_is_bound():
    state = extender()
    assert step(state, wanted(1, "a")) == [events.FetchPod(1, "ns", "pod-a")]
    assert step(state, events.PodFetched(1, pod("a"), "", 2)) == [events.Bind(pod("a"), "w1")]
    for ticket, found, error, text in (
        (2, None, "", "there is no pod ns/pod-b with uid b"),
        (3, pod("c"), "", "there is no pod ns/pod-b with uid b"),
        (4, None, "refused", "the pod cannot be read: refused"),
    ):
        step(state, wanted(ticket, "b"))
        assert step(state, events.PodFetched(ticket, found, error, 2)) == [
            events.AnswerBind(ticket, text)
        ]
    assert state.fetching == {}
    assert state.pods.keys() == {"a"}
