"""One call per pod: what a kube-scheduler is told, and what is kept for it."""

from dataclasses import replace

from tests.apps.scheduler.counting import CountingFleet
from tests.apps.scheduler.test_step import host, pod, turn

from numalign.apps.scheduler import events
from numalign.apps.scheduler.asked_hosts import RESERVED_SECONDS
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.scheduling.constraints import HostRequirements
from numalign.core.cluster.scheduling.refusals import UNCONFIRMED, Refusal
from numalign.core.pod import Container
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes.extender import Filtered, HostsAsked
from numalign.wire.kubernetes.scheduling import VOLUME_CLAIMS, ClusterPod

BOTH = ("w1", "w2")


class LateFleet(CountingFleet):
    """Hosts that have yet to publish."""

    def refusals(self, pod, hosts):
        return dict.fromkeys(hosts, Refusal(UNCONFIRMED))

    def choose(self, pod, is_allowed):
        return None


class CountedFleet(CountingFleet):
    """How often it was asked about all hosts."""

    asked = 0

    def refusals(self, pod, hosts):
        self.asked += 1
        return super().refusals(pod, hosts)


def pinned(uid: str, **more) -> ClusterPod:
    """A Guaranteed pod."""
    amounts = {"cpu": Quantity.of(1), "memory": Quantity.of(1)}
    found = pod(uid, **more)
    return replace(found, pod=replace(found.pod, containers=(Container("c", amounts, amounts),)))


def cluster(*names: str, room: int = 1, fleet=None, is_reserving: bool = True) -> State:
    fleet = fleet or CountingFleet(room)
    state = State(fleet, "", is_extender=True, is_reserving=is_reserving)
    step(state, events.PodsListed((), 0))
    step(state, events.HostsListed(tuple(map(host, names)), 0))
    step(state, events.TopologiesListed((), 0))
    state.topologies.update(dict.fromkeys(names))  # what is in them is the fleet's business
    return state


def ask(state: State, one: ClusterPod, names=BOTH, now: float = 1.0) -> Filtered:
    *_, answer = step(state, events.HostsWanted(1, HostsAsked(one, tuple(names), None), now))
    assert isinstance(answer, events.AnswerHosts)
    return answer.found


def test_the_answer_is_one_host_that_the_next_pod_does_not_get():
    state = cluster(*BOTH)
    (first,) = ask(state, pinned("a")).kept
    (second,) = ask(state, pinned("b")).kept
    assert {first, second} == set(BOTH)
    assert ask(state, pinned("c")).kept == frozenset()


def test_only_hosts_that_were_asked_about_are_given():
    state = cluster(*BOTH)
    assert ask(state, pinned("a"), ["w2"]).kept == ("w2",)


def test_a_pod_that_holds_nothing_for_itself_gets_all_hosts_and_no_reservation():
    state = cluster(*BOTH)
    shared = replace(pod("a").pod, containers=(Container("c", {}, {}),))
    assert ask(state, replace(pod("a"), pod=shared)).kept == set(BOTH)
    assert state.placed == {}


def test_what_the_watch_confirms_stays_and_what_it_does_not_is_freed():
    state = cluster(*BOTH)
    (first,) = ask(state, pinned("a")).kept
    (second,) = ask(state, pinned("b")).kept
    step(state, events.PodSeen(pinned("a", host=first), 2))
    assert next_turn_at(state, 2) == 1 + RESERVED_SECONDS
    assert turn(state, 1 + RESERVED_SECONDS) == [events.CountAttempt("unconfirmed")]
    assert state.fleet.on[first] == {"a"}
    assert state.fleet.on[second] == set()


def test_a_pod_that_waits_for_a_volume_is_kept_a_place_for_longer():
    state = cluster(*BOTH)
    claims = HostRequirements(unsupported=(VOLUME_CLAIMS,))
    ask(state, pinned("a", requirements=claims))
    assert turn(state, 1 + RESERVED_SECONDS) == []


def test_a_pod_that_is_asked_about_again_gives_its_place_back_first():
    state = cluster("w1")
    assert ask(state, pinned("a"), ["w1"]).kept == ("w1",)
    assert ask(state, pinned("a"), ["w1"], 2.0).kept == ("w1",)
    assert state.fleet.on["w1"] == {"a"}


def test_a_pod_bound_elsewhere_counts_there_alone():
    state = cluster(*BOTH)
    (kept,) = ask(state, pinned("a")).kept
    other = "w2" if kept == "w1" else "w1"
    step(state, events.PodSeen(pinned("a", host=other), 2))
    assert state.fleet.on[kept] == set()
    assert state.fleet.on[other] == {"a"}
    assert state.reserved == {}


def test_a_host_that_was_promised_is_bound_without_another_question():
    state = cluster("w1")
    step(state, events.PodSeen(pinned("a"), 0))
    ask(state, pinned("a"), ["w1"])
    wanted = events.BindWanted(7, "a", "ns", "pod-a", "w1", 2)
    assert step(state, wanted) == [events.Bind(pinned("a"), "w1")]
    end = events.BindEnded("a", "w1", events.BindOutcome.BOUND, "", 3)
    assert events.AnswerBind(7, "") in step(state, end)


def test_a_refusal_that_holds_only_for_now_is_an_error_so_that_it_is_asked_again():
    state = cluster(*BOTH, fleet=LateFleet())
    found = ask(state, pinned("a"))
    assert found.error == "2 hosts, such as w1, have yet to publish: ask again"
    assert state.refused == {}


def test_a_refused_pod_is_touched_when_a_host_would_take_it():
    state = cluster("w1")
    ask(state, pinned("other"), ["w1"])
    assert ask(state, pinned("a"), ["w1"]).error == ""
    assert next_turn_at(state, 1) == 1 + RESERVED_SECONDS  # nothing has changed for it
    step(state, events.PodGone("other", 1.2))
    assert next_turn_at(state, 1.2) == 2
    assert turn(state, 1.9) == []
    touched, touch = turn(state, 2)
    assert touched == events.CountAttempt("touched")
    assert isinstance(touch, events.TouchPod)
    assert touch.pod.pod.uid == "a"
    assert turn(state, 50) == []  # once for each change


def test_a_change_that_does_not_help_touches_no_pod():
    state = cluster("w1", room=0)
    ask(state, pinned("a"), ["w1"])
    state.helped(1.5)
    assert turn(state, 3) == []


def test_a_pod_that_found_a_host_or_is_gone_is_not_touched():
    state = cluster("w1", room=0)
    for uid in ("a", "b"):
        ask(state, pinned(uid), ["w1"])
    state.fleet.room = 9
    step(state, events.PodSeen(pinned("a", host="w9"), 2))
    step(state, events.PodGone("b", 2))
    state.helped(2.0)
    assert turn(state, 100) == []


def test_with_three_calls_nothing_is_kept_before_the_bind():
    state = cluster(*BOTH, is_reserving=False)
    assert ask(state, pinned("a")).kept == set(BOTH)
    assert state.placed == {}


def test_equal_pods_are_refused_with_one_look_until_something_changes():
    state = cluster(*BOTH, fleet=CountedFleet(room=0))
    first = ask(state, pinned("a"))
    assert ask(state, pinned("b")) is first
    assert state.fleet.asked == 1
    assert "b" in state.refused
    assert ask(state, pod("other")).failed == first.failed  # of another class
    assert ask(state, pinned("c"), ["w1"]).failed.keys() == {"w1"}
    assert state.fleet.asked == 3
    state.fleet.room = 1
    state.helped(2.0)
    assert len(ask(state, pinned("d")).kept) == 1


def test_what_takes_room_is_not_answered_from_before():
    state = cluster("w1", room=1, is_reserving=False)
    assert ask(state, pinned("a"), ["w1"]).kept == {"w1"}
    step(state, events.PodSeen(pinned("b", host="w1"), 1.5))
    assert ask(state, pinned("c"), ["w1"]).kept == frozenset()


def test_a_host_that_is_gone_ends_what_was_said_of_it():
    state = cluster("w1", room=1, is_reserving=False)
    before = state.version
    step(state, events.HostGone("w1", 2))
    assert state.version != before
    before = state.version
    step(state, events.PodsListed((), 3))
    assert state.version != before
