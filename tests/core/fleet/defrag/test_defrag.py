import random
from dataclasses import replace
from itertools import product

import pytest
from tests.core.cluster.scheduling.kubelets import a_pod
from tests.core.fleet.fleets import a_frame, grown
from tests.core.fleet.test_capacity import a_host

from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.align import aligned
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


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_is_as_short_as_any_and_holds_step_by_step(seed):
    rng = random.Random(seed)
    fleet = random_fleet(rng)
    pod = a_pod("new", (rng.choice([4, 6, 8, 12, 16]), 4, rng.choice([0, 0, 1])))
    after, plan = room_for(fleet, pod, Search(everyone(fleet), {}))
    best = fewest_by_trying(fleet, pod, 1)
    if best is not None:
        assert len(plan.moves) == best == plan.lower_bound
    else:
        assert plan.target is None or len(plan.moves) >= max(2, plan.lower_bound)
    assert first_refused(fleet, plan.moves) is None
    if plan.target is not None:
        assert pod.uid in after[plan.target].state.pods


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
