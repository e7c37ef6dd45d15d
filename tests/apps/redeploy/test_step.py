"""What is done about refused pods: the waits, the limits, and when hope comes back."""

from dataclasses import replace

import pytest

from numalign.apps.redeploy import events
from numalign.apps.redeploy.due import owner_ready_at
from numalign.apps.redeploy.model import RedeployState, Rules
from numalign.apps.redeploy.step import RETRY_SECONDS, step
from numalign.core.cluster.refused_pods import Owner, SeenPod

RS = Owner("apps/v1", "ReplicaSet", "web", "rs-1")
OTHER = Owner("x.example/v1", "Thing", "t", "thing-1")


def refused(uid, host="w1", at=0.0, owner=RS, **others):
    return SeenPod(
        "default",
        uid,
        uid,
        owner,
        "shape",
        host,
        others.pop("reason", "TopologyAffinityError"),
        refused_at=at,
        **others,
    )


def gated(uid, owner=RS, shape="shape"):
    return SeenPod("default", uid, uid, owner, shape, is_gated=True)


class Loop:
    """The loop with its state; effects come back as short tuples."""

    def __init__(self, hosts=("w1", "w2"), **rules):
        self.rules = Rules(**rules)
        self.state = RedeployState()
        self.now = 0.0
        self.tell(events.HostsListed(frozenset(hosts), 0.0))

    def tell(self, event):
        self.now = max(self.now, event.now)
        self.state, effects = step(self.rules, self.state, event)
        self.effects = effects
        return [
            _short(e)
            for e in effects
            if not isinstance(e, events.CountRefusal | events.CountGiveUp)
        ]

    def fail(self, now):
        """The last effects come to nothing, and the loop hears of it."""
        return [told for e in self.effects for told in self.tell(events.EffectFailed(e, now))]

    def seen(self, *pods, now=None):
        now = self.now if now is None else now
        return [effect for pod in pods for effect in self.tell(events.PodSeen(pod, now))]

    def tick(self, now):
        return self.tell(events.Tick(now))


def _short(effect):
    match effect:
        case events.DeletePod(pod):
            return "delete", pod.uid
        case events.OpenGate(pod, avoids):
            return "open", pod.uid, *avoids
        case events.RecreatePod(pod, avoids):
            return "recreate", pod.uid, *avoids
        case events.WriteEvent(_, reason):
            return "tell", reason


def deletions(effects):
    return [effect[1] for effect in effects if effect[0] == "delete"]


def test_a_gate_opens_at_once_while_nothing_was_refused():
    assert Loop().seen(gated("a")) == [("open", "a")]


def test_an_opened_gate_is_not_opened_again_until_that_failed():
    loop = Loop()
    loop.seen(gated("a"))
    assert loop.tick(1) == []
    loop.tell(events.EffectFailed(events.OpenGate(gated("a"), ()), 2))
    assert loop.tick(2 + RETRY_SECONDS) == [("open", "a")]


def test_what_failed_is_tried_again_after_a_while_and_only_that():
    loop = Loop()
    loop.seen(gated("a"), gated("b"))
    assert loop.fail(10) == []
    assert loop.tick(10 + RETRY_SECONDS - 0.1) == []
    assert loop.tick(10 + RETRY_SECONDS) == [("open", "b")]
    assert loop.tick(100) == []


def test_an_event_that_could_not_be_written_does_not_repeat_what_went_well():
    loop = Loop()
    loop.seen(refused("a", owner=OTHER))
    told = events.WriteEvent(refused("a", owner=OTHER), "TopologyRefused", "")
    assert deletions(loop.tick(7)) == ["a"]
    loop.tell(events.EffectFailed(told, 8))
    assert loop.tick(60) == []


def test_a_pod_that_is_gone_is_not_tried_again():
    loop = Loop()
    loop.seen(gated("a"))
    loop.fail(1)
    loop.tell(events.PodGone("a", 2))
    assert loop.tick(60) == []
    assert (loop.state.asked, loop.state.retries) == (frozenset(), {})
    loop.seen(gated("b"))
    loop.fail(61)
    loop.tell(events.PodsListed((), 62))
    assert (loop.state.asked, loop.state.retries) == (frozenset(), {})


def test_a_failure_that_is_heard_of_after_the_pod_is_gone_leaves_nothing():
    loop = Loop()
    loop.seen(gated("a"))
    loop.tell(events.PodGone("a", 1))
    loop.tell(events.EffectFailed(events.OpenGate(gated("a"), ()), 2))
    assert loop.state.retries == {}


def test_after_a_refusal_the_next_pod_waits_and_then_avoids_the_host():
    loop = Loop()
    loop.seen(refused("a"))
    assert loop.seen(gated("b"), now=1) == []
    assert loop.tick(3.9) == []
    assert loop.tick(6.1) == [("open", "b", "w1")]  # 5 s, a fifth more or less


def test_pods_of_another_shape_and_owner_are_not_held_up():
    loop = Loop()
    loop.seen(refused("a"))
    assert loop.seen(gated("b", OTHER, "small"), now=1) == [("open", "b")]
    assert loop.seen(gated("c", OTHER), now=1) == [("open", "c", "w1")]


def test_with_all_hosts_avoided_the_gate_stays_closed_until_the_first_is_not():
    loop = Loop()
    loop.seen(refused("a", "w1"), now=0)
    loop.seen(refused("b", "w2", at=4), now=4)
    loop.seen(gated("c"))
    assert loop.tick(29.9) == []
    assert ("open", "c", "w2") in loop.tick(30.1)


def test_avoiding_a_host_lasts_twice_as_long_every_time():
    loop = Loop(avoid_seconds_max=100)
    for number, at in enumerate([0, 40, 110, 220]):
        loop.seen(refused(f"p{number}", at=at), now=at)
    (avoided,) = loop.state.avoided.values()
    assert (avoided.times, avoided.until) == (4, 320)


@pytest.mark.parametrize(("count", "wait"), [(1, 5), (2, 10), (3, 20), (4, 40)])
def test_an_owner_waits_twice_as_long_every_time(count, wait):
    loop = Loop()
    for number in range(count):
        loop.seen(refused(f"p{number}"))
    found = owner_ready_at(loop.rules, loop.state, gated("next"))
    assert 0.8 * wait <= found <= 1.2 * wait


def test_we_give_up_after_the_limit_say_so_once_and_try_again_when_the_window_has_passed():
    loop = Loop(avoid_seconds=1, avoid_seconds_max=1)
    told = [
        effect
        for number in range(8)
        for effect in loop.seen(refused(f"p{number}", at=number), now=number)
        if effect[0] == "tell"
    ]
    assert told == [("tell", "TopologyRefused"), ("tell", "TopologyRedeployGaveUp")]
    loop.seen(gated("next"))
    opened = [now for now in range(10, 700, 2) if ("open", "next") in loop.tick(now)]
    assert opened == [604]  # 600 s after the fifth-last refusal


def holding(uid, host):
    return SeenPod("default", uid, uid, RS, host=host)


def hopeless(*, hosts=("w1",)):
    """A loop whose only host refused so often that the next pod waits for a long time."""
    loop = Loop(hosts=hosts)
    tenants = (holding("tenant", "w1"), holding("far", "w9"))
    loop.tell(events.PodsListed(tenants, 0, frozenset({"tenant", "far"})))
    for number in range(5):
        loop.seen(refused(f"p{number}"))
    assert loop.seen(gated("next")) == []
    return loop


LEAVINGS = {
    "is gone": lambda uid: events.PodGone(uid, 20),
    "has ended": lambda uid: events.PodSeen(holding(uid, ""), 20),
    "has ended and is still there": lambda uid: events.PodSeen(holding(uid, "w1"), 20, holds=False),
}


@pytest.mark.parametrize("how", LEAVINGS)
def test_room_on_the_host_brings_hope_back_at_once(how):
    loop = hopeless()
    assert loop.tell(LEAVINGS[how]("far")) == []
    assert ("open", "next") in loop.tell(LEAVINGS[how]("tenant"))


def test_a_list_without_the_one_that_held_the_room_brings_hope_back_too():
    still = (*(refused(f"p{number}") for number in range(5)), gated("next"))
    tenant, far = holding("tenant", "w1"), holding("far", "w9")
    loop = hopeless()
    assert loop.tell(events.PodsListed((*still, tenant), 20, frozenset({"tenant"}))) == []
    assert ("open", "next") in loop.tell(events.PodsListed((*still, far), 20, frozenset({"far"})))
    ended = hopeless()
    assert ("open", "next") in ended.tell(events.PodsListed((*still, tenant), 20))


def test_a_pod_that_holds_something_and_is_seen_again_frees_nothing():
    loop = hopeless()
    assert loop.tell(events.PodSeen(holding("tenant", "w1"), 20, holds=True)) == []
    assert loop.state.placed == {"tenant": "w1", "far": "w9"}


def test_a_new_host_opens_the_gate_and_a_host_that_is_gone_is_none():
    loop = Loop(hosts=["w1"])
    loop.seen(refused("a"))
    loop.seen(gated("b"))
    assert loop.tick(7) == []
    assert loop.tell(events.HostSeen("w2", 8)) == [("open", "b", "w1")]
    loop.tell(events.HostGone("w2", 8))
    loop.seen(gated("c"))
    assert loop.tick(9) == []
    assert loop.tell(events.HostSeen("w3", 10)) == [("open", "c", "w1")]
    assert loop.state.hosts == {"w1", "w3"}


def test_it_is_ready_once_the_pods_are_listed_and_while_they_are_followed():
    loop = Loop()
    assert loop.state.problems == ["the cluster was not listed yet"]
    loop.tell(events.PodsListed((), 1))
    assert loop.state.problems == []
    loop.tell(events.WatchInterrupted("pods", "refused", 2))
    loop.tell(events.HostSeen("w1", 3))
    assert loop.state.problems == ["pods: refused"]
    loop.tell(events.PodGone("x", 4))
    assert loop.state.problems == []


def test_an_owner_that_we_gave_up_is_counted_once():
    loop = Loop()
    counts = [
        sum(isinstance(e, events.CountGiveUp) for e in loop.effects)
        for number in range(8)
        if loop.seen(refused(f"p{number}")) is not None
    ]
    assert counts == [0, 0, 0, 0, 1, 0, 0, 0]


def test_failed_pods_of_a_replica_set_go_after_their_grace_and_the_newest_stays():
    loop = Loop(grace_seconds=30, keep=1)
    loop.seen(refused("old", at=0), refused("new", at=10), now=10)
    assert loop.tick(29) == []
    assert deletions(loop.tick(31)) == ["old"]
    assert deletions(loop.tick(100)) == []
    assert deletions(loop.tick(611)) == ["new"]


def test_another_controller_gets_its_deletion_when_the_next_try_is_due():
    loop = Loop()
    assert deletions(loop.seen(refused("a", owner=OTHER))) == []
    assert deletions(loop.tick(3.9)) == []
    assert deletions(loop.tick(6.1)) == ["a"]


def test_a_deletion_that_failed_is_tried_again_and_a_done_one_is_not():
    loop = Loop()
    loop.seen(refused("a", owner=OTHER))
    assert deletions(loop.tick(7)) == ["a"]
    loop.fail(8)
    assert deletions(loop.tick(8 + RETRY_SECONDS)) == ["a"]
    assert deletions(loop.tell(events.PodGone("a", 20))) == []
    assert loop.state.refused == {}
    assert loop.state.asked == frozenset()


@pytest.mark.parametrize(
    "pod",
    [
        refused("a", owner=replace(RS, kind="Job")),
        refused("a", owner=replace(RS, kind="DaemonSet")),
        refused("a", is_static=True),
        refused("a", is_leaving=True),
        refused("a", reason="Evicted"),
        refused("a", reason="UnexpectedAdmissionError"),
        replace(refused("a"), namespace="kube-system"),
        refused("a", owner=None),
    ],
)
def test_pods_that_are_none_of_ours_are_left_alone(pod):
    loop = Loop()
    effects = loop.seen(pod) + loop.tick(1000)
    assert [e for e in effects if e[0] != "tell"] == []


def test_a_stateful_set_deletes_its_pods_itself_but_its_host_is_avoided():
    loop = Loop()
    loop.seen(refused("a", owner=replace(RS, kind="StatefulSet")))
    assert deletions(loop.tick(1000)) == []
    loop = Loop()
    loop.seen(refused("a", owner=replace(RS, kind="StatefulSet")))
    assert loop.state.avoided_hosts("shape", 1) == ["w1"]


def test_other_reasons_count_when_they_are_chosen():
    loop = Loop(reasons=frozenset({"SMTAlignmentError"}))
    loop.seen(refused("a", reason="SMTAlignmentError"))
    assert loop.state.avoided_hosts("shape", 1) == ["w1"]


def test_a_bare_pod_is_made_again_only_on_request_away_from_its_host():
    bare = refused("a", owner=None)
    loop = Loop()
    loop.seen(replace(bare, wants_recreation=True))
    assert loop.tick(7) == [("recreate", "a", "w1")]
    loop = Loop(recreates_bare=True)
    loop.seen(bare)
    assert loop.tick(7) == [("recreate", "a", "w1")]


def test_a_bare_pod_that_was_made_again_counts_with_the_first_one():
    loop = Loop(recreates_bare=True)
    first, second = refused("a", owner=None), refused("b", "w2", owner=None, at=7, root="a")
    loop.seen(first)
    loop.tick(7)
    loop.seen(second, now=7)
    assert len(loop.state.owners["a"].refusals) == 2
    loop.tell(events.PodGone("a", 8))
    assert loop.tick(14.9) == []
    assert loop.tick(31) == [("recreate", "b", "w2")]


def test_a_pod_whose_gate_ruled_out_hosts_is_renewed_once_they_may_have_room():
    loop = Loop()
    loop.seen(refused("a"))
    opened = SeenPod("default", "b", "b", RS, "shape", avoids=("w1",))
    assert loop.seen(opened, now=10) == []
    assert deletions(loop.tick(29)) == []
    assert "b" in deletions(loop.tick(31))
    bound = Loop()
    bound.seen(refused("a"))
    bound.seen(opened, replace(opened, host="w2"))
    assert "b" not in deletions(bound.tick(31))


def test_deletions_are_limited_in_time():
    loop = Loop(deletions_per_minute_max=60, keep=0)
    owners = [replace(RS, uid=f"rs-{number}") for number in range(200)]
    loop.tell(events.PodsListed(tuple(refused(o.uid, owner=o) for o in owners), 0))
    counts = [len(deletions(loop.tick(30 + second))) for second in range(5)]
    assert counts == [10, 1, 1, 1, 1]


def test_a_list_forgets_what_is_gone_and_a_restart_knows_the_same():
    pods = (refused("a", at=1), refused("b", at=2), gated("c"))
    loop = Loop()
    loop.tell(events.PodsListed((), 2))
    for pod in pods:
        loop.seen(pod, now=2)
    again = Loop()
    again.tell(events.PodsListed(pods, 2))
    assert again.state == loop.state
    loop.tell(events.PodsListed((pods[0],), 3))
    assert loop.state.refused.keys() == {"a"}
    assert loop.state.waiting == {}


def test_a_pod_seen_twice_is_one_refusal():
    loop = Loop()
    loop.seen(refused("a"), refused("a"))
    assert len(loop.state.owners["rs-1"].refusals) == 1


def test_old_refusals_are_forgotten():
    loop = Loop()
    loop.seen(refused("a"))
    loop.tell(events.PodGone("a", 1))
    loop.tick(2000)
    assert loop.state.avoided == {}
    assert loop.state.owners == {}
