import random
from dataclasses import replace
from itertools import product

import pytest
from tests.core.cluster.scheduling.kubelets import a_pod
from tests.core.fleet.fleets import a_frame, grown
from tests.core.fleet.test_capacity import a_host

from numalign.core.cluster.between_pods.neighbours import Newcomer
from numalign.core.cluster.between_pods.rules import PodRules, Scope, Term
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostPort,
    HostRequirements,
    Requirement,
    Taint,
)
from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.align import aligned
from numalign.core.fleet.defrag.allowed import Allowed
from numalign.core.fleet.defrag.descent import lowered
from numalign.core.fleet.defrag.make_room import Search, room_for
from numalign.core.fleet.defrag.places import Move, Places, first_refused
from numalign.core.fleet.measures import ReferencePod
from numalign.core.kubelet.admission.verdict import verdict_on


def places(*states):
    return Places.of([FleetHost(f"h{i}", frame, state) for i, (frame, state) in enumerate(states)])


def with_pods(frame, *pods):
    state = frame.empty
    for pod in pods:
        state, verdict = verdict_on(frame.host, state, frame.totals, pod)
        assert pod.uid in state.pods, verdict
    return frame, state


def everyone(fleet):
    return {uid for place in fleet.values() for uid in place.state.pods}


def random_fleet(rng, count=3):
    frames = [a_frame(rng, policy="single-numa-node", nodes=2) for _ in range(count)]
    states = []
    for number, frame in enumerate(frames):
        state = grown(rng, frame, rng.randrange(3, 8))
        pods = {
            f"{number}-{uid}": replace(p, uid=f"{number}-{uid}") for uid, p in state.pods.items()
        }
        again = frame.empty
        for pod in pods.values():
            again, _ = verdict_on(frame.host, again, frame.totals, pod)
        states.append((frame, again))
    return places(*states)


def test_nothing_moves_where_the_pod_fits():
    _, plan = room_for(places((a_host(), a_host().empty)), a_pod("new", (4, 1, 0)), Search((), {}))
    assert (plan.target, plan.moves, plan.lower_bound) == ("h0", (), 0)


def test_one_pod_makes_room_on_a_node_that_two_others_share():
    frame = a_host()  # nodes of 7 and 8 CPUs
    fleet = places(
        with_pods(frame, a_pod("a", (5, 1, 0)), a_pod("b", (5, 1, 0))),
        with_pods(frame, a_pod("c", (3, 1, 0)), a_pod("d", (6, 1, 0))),
    )
    names = {"c": "default/c"}
    _, plan = room_for(fleet, a_pod("new", (7, 1, 0)), Search(everyone(fleet), names))
    assert plan.moves == (Move("c", "default/c", "h1", "h0"),)
    assert (plan.target, plan.lower_bound) == ("h1", 1)


def test_who_may_not_move_stays():
    frame = a_host()
    fleet = places(
        with_pods(frame, a_pod("a", (5, 1, 0)), a_pod("b", (5, 1, 0))),
        with_pods(frame, a_pod("c", (3, 1, 0)), a_pod("d", (6, 1, 0))),
    )
    _, plan = room_for(fleet, a_pod("new", (7, 1, 0)), Search({"d"}, {}))
    assert plan.target is None


def test_a_pod_moves_only_when_its_new_place_is_free():
    frame = a_host()
    fleet = places(
        with_pods(frame, a_pod("a", (7, 1, 0)), a_pod("b", (8, 1, 0))),
        with_pods(frame, a_pod("c", (7, 1, 0))),
    )
    to_full = [Move("c", "c", "h1", "h0")]
    assert first_refused(fleet, to_full) == to_full[0]
    good = [Move("b", "b", "h0", "h1"), Move("c", "c", "h1", "h0")]
    assert first_refused(fleet, good) is None


def fewest_by_trying(fleet, pod, moves_max):
    """The least number of moves, by trying all sequences of moves."""
    uids = sorted(everyone(fleet))
    hosts = [place.name for place in fleet.values()]

    def at(now, uid):
        return next((p.name for p in now.values() if uid in p.state.pods), None)

    def fits(now):
        return any(place.seat(pod) is not None for place in now.values())

    def search(now, left):
        if fits(now):
            return True
        if not left:
            return False
        for uid, target in product(uids, hosts):
            origin = at(now, uid)
            if origin is not None and origin != target:
                then = now.copy()
                if then.move(Move(uid, uid, origin, target)) and search(then, left - 1):
                    return True
        return False

    return next((n for n in range(moves_max + 1) if search(fleet, n)), None)


@pytest.mark.parametrize("seed", range(24))
def test_a_plan_is_as_short_as_any_and_holds_step_by_step(seed):
    rng = random.Random(seed)
    fleet = random_fleet(rng)
    pod = a_pod("new", (rng.choice([4, 6, 8, 12, 16]), 4, rng.choice([0, 0, 1])))
    after, plan = room_for(fleet, pod, Search(everyone(fleet), {}))
    best = fewest_by_trying(fleet, pod, 2)
    if best is not None:
        assert len(plan.moves) == best == plan.lower_bound
    else:
        assert plan.lower_bound == 3
        assert plan.target is None or len(plan.moves) >= 3
    assert first_refused(fleet, plan.moves) is None
    if plan.target is not None:
        assert pod.uid in after[plan.target].state.pods


def test_two_pods_change_places_where_nothing_else_helps():
    frame = a_host(nodes=1)  # 7 CPUs to give
    fleet = places(
        with_pods(frame, a_pod("v", (4, 1, 0))),
        with_pods(frame, a_pod("w", (2, 1, 0)), a_pod("z", (3, 1, 0))),
    )
    _, plan = room_for(fleet, a_pod("new", (5, 1, 0)), Search({"v", "w"}, {}))
    assert [(m.pod, m.target) for m in plan.moves] == [("w", "h0"), ("v", "h1")]
    assert (plan.target, plan.lower_bound) == ("h0", 2)


def test_a_pod_leaves_the_place_to_one_that_has_no_other():
    frame, large = a_host(nodes=1), a_host(nodes=1, cpus=6)
    fleet = places(
        with_pods(frame, a_pod("a", (3, 1, 0)), a_pod("b", (4, 1, 0))),
        with_pods(frame, a_pod("c", (3, 1, 0))),  # 4 left: the first place for a, the only for b
        with_pods(large, a_pod("d", (2, 1, 0))),  # 3 left
    )
    _, plan = room_for(fleet, a_pod("new", (7, 1, 0)), Search({"a", "b"}, {}))
    assert {(m.pod, m.target) for m in plan.moves} == {("a", "h2"), ("b", "h1")}


def test_a_long_plan_has_no_move_that_it_does_not_need():
    frame = a_host(nodes=1)
    small = [a_pod(f"s{i}", (1, 1, 0)) for i in range(4)]
    fleet = places(
        with_pods(frame, a_pod("big", (3, 1, 0)), *small),
        with_pods(frame, a_pod("fixed", (4, 1, 0))),
        with_pods(frame, a_pod("also", (5, 1, 0))),
    )
    _, plan = room_for(fleet, a_pod("new", (4, 1, 0)), Search(everyone(fleet) - {"big"}, {}))
    assert {m.pod for m in plan.moves} == {"s0", "s1", "s2", "s3"} or len(plan.moves) <= 4
    assert first_refused(fleet, plan.moves) is None
    for number in range(len(plan.moves)):
        fewer = fleet.copy()
        for move in plan.moves[:number] + plan.moves[number + 1 :]:
            fewer.move(move)
        assert fewer[plan.target].seat(a_pod("new", (4, 1, 0))) is None


@pytest.mark.parametrize("seed", range(6))
def test_each_move_of_a_descent_lowers_the_fragments_and_holds(seed):
    rng = random.Random(seed)
    fleet = random_fleet(rng, 4)
    mix = [ReferencePod("m", a_pod("m", (6, 2, 0)), 1), ReferencePod("n", a_pod("n", (3, 1, 0)), 1)]
    before = None
    for count in range(4):
        found = lowered(fleet, everyone(fleet), {}, mix, count)
        assert len(found.moves) <= count
        assert first_refused(fleet, found.moves) is None
        assert before is None or found.after <= before
        before = found.after


def test_a_pod_that_sits_on_two_nodes_moves_to_a_host_with_one():
    frame = a_host("best-effort")
    spread = with_pods(frame, a_pod("a", (5, 1, 0)), a_pod("b", (5, 1, 0)), a_pod("c", (4, 1, 0)))
    fleet = places(spread, (frame, frame.empty))
    found = aligned(fleet, everyone(fleet), {})
    assert [(m.pod, m.target) for m in found.moves] == [("c", "h1")]
    assert found.misaligned == 1
    assert aligned(places(spread), everyone(fleet), {}).unhelped == ("c",)


# What a scheduler would say beside room.


def known(uid, requirements=None, labels=None, rules=None):
    return Newcomer(uid, "default", labels or {}, requirements or HostRequirements(), rules)


def under_rules(fleet, pods, **facts):
    """The same fleet, with what hosts say of themselves and pods demand."""
    where = {uid: p.name for p in fleet.values() for uid in p.state.pods}
    hosts = {p.name: HostFacts(p.name, **facts.get(p.name, {})) for p in fleet.values()}
    return Places(
        {p.name: p for p in fleet.values()},
        Allowed(hosts, {one.uid: one for one in pods}, where),
    )


def one_in_the_way():
    """On h0 a pod must go for the new one; h1 and h2 have room for it."""
    frame = a_host(nodes=1)
    return places(
        with_pods(frame, a_pod("v", (5, 1, 0))), (frame, frame.empty), (frame, frame.empty)
    )


ONLY_H0 = HostRequirements(selector=(("zone", "a"),))
SELF = Term(Scope(None, (Requirement("app", "In", ("web",)),)), "kubernetes.io/hostname")


def let_in_on_h0(pods, **facts):
    fleet = under_rules(one_in_the_way(), [known("new", ONLY_H0), *pods], **facts)
    return room_for(fleet, a_pod("new", (5, 1, 0)), Search({"v"}, {}))[1]


A = {"labels": {"zone": "a"}}


def test_a_pod_goes_where_its_labels_and_taints_let_it():
    plan = let_in_on_h0([known("v")], h0=A)
    assert [m.target for m in plan.moves] == ["h1"]
    taint = {"taints": (Taint("gpu", "", "NoSchedule"),)}
    assert [m.target for m in let_in_on_h0([known("v")], h0=A, h1=taint).moves] == ["h2"]
    ssd = known("v", HostRequirements(selector=(("disk", "ssd"),)))
    plan = let_in_on_h0([ssd], h0=A, h2={"labels": {"disk": "ssd"}})
    assert [m.target for m in plan.moves] == ["h2"]
    assert let_in_on_h0([ssd], h0=A).target is None


def test_a_pod_keeps_away_from_those_whom_its_anti_affinity_names():
    rules = PodRules(anti_affinity=(SELF,))
    pods = [known(uid, labels={"app": "web"}, rules=rules) for uid in ("v", "w")]
    names = {f"h{i}": {"labels": {"kubernetes.io/hostname": f"h{i}"}} for i in range(3)}
    names["h0"]["labels"]["zone"] = "a"
    frame = a_host(nodes=1)
    fleet = under_rules(
        places(
            with_pods(frame, a_pod("v", (5, 1, 0))),
            with_pods(frame, a_pod("w", (1, 1, 0))),
            (frame, frame.empty),
        ),
        [known("new", ONLY_H0), *pods],
        **names,
    )
    _, plan = room_for(fleet, a_pod("new", (5, 1, 0)), Search({"v"}, {}))
    assert [(m.pod, m.target) for m in plan.moves] == [("v", "h2")]
    assert first_refused(fleet, [Move("v", "v", "h0", "h1")]) is not None
    # Once w has gone to the third host, the second one is free of such pods and the third is not.
    there = [Move("w", "w", "h1", "h2"), Move("v", "v", "h0", "h1")]
    assert first_refused(fleet, there) is None
    assert first_refused(fleet, [there[0], Move("v", "v", "h0", "h2")]) is not None
    assert first_refused(fleet, there) is None  # asking changes nothing


def test_ports_of_the_host_are_not_taken_twice():
    port = HostRequirements(ports=(HostPort(8080),))
    frame = a_host(nodes=1)
    fleet = under_rules(
        places(
            with_pods(frame, a_pod("v", (1, 1, 0))),
            with_pods(frame, a_pod("w", (1, 1, 0))),
            (frame, frame.empty),
        ),
        [known("v", port), known("w", port)],
    )
    assert first_refused(fleet, [Move("v", "v", "h0", "h1")]) is not None
    assert first_refused(fleet, [Move("v", "v", "h0", "h2")]) is None


def test_a_descent_and_an_alignment_heed_the_rules():
    frame = a_host("best-effort")
    spread = with_pods(frame, a_pod("a", (5, 1, 0)), a_pod("b", (5, 1, 0)), a_pod("c", (4, 1, 0)))
    fleet = places(spread, (frame, frame.empty), (frame, frame.empty))
    closed = {"h1": {"taints": (Taint("gpu", "", "NoSchedule"),)}}
    ruled = under_rules(fleet, [known(uid) for uid in "abc"], **closed)
    assert [m.target for m in aligned(ruled, everyone(fleet), {}).moves] == ["h2"]
    one = a_host(nodes=1)
    fleet = places(
        with_pods(one, a_pod("d", (1, 1, 0))),
        with_pods(one, a_pod("e", (6, 1, 0))),
        with_pods(one, a_pod("f", (6, 1, 0))),
    )
    ruled = under_rules(fleet, [known(uid) for uid in "def"], **closed)
    mix = [ReferencePod("m", a_pod("m", (7, 2, 0)), 1)]
    found = lowered(ruled, everyone(fleet), {}, mix, 3)
    assert [(m.pod, m.target) for m in found.moves] == [("d", "h2")]
    assert found.least <= found.after < found.before
