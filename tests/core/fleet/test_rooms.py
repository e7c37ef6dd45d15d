import random

import pytest
from tests.core.cluster.scheduling.kubelets import a_pod
from tests.core.fleet.fleets import a_frame, grown, sizes

from numalign.core.fleet import capacity
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted


@pytest.mark.parametrize("seed", range(30))
def test_what_the_amounts_say_is_what_the_managers_decide(seed):
    rng = random.Random(seed)
    frame = a_frame(rng, policy="single-numa-node" if seed % 2 else None)
    rooms = Rooms(frame)
    for _ in range(4):
        state = grown(rng, frame, rng.randrange(14))
        room = rooms.room(state)
        for i in range(12):
            pod = a_pod(f"new{i}", sizes(rng))
            seat = rooms.seat(state, room, pod)
            after, verdict = verdict_on(frame.host, state, frame.totals, pod)
            assert (seat is not None) == isinstance(verdict, Admitted)
            assert rooms.fits(state, room, pod) == isinstance(verdict, Admitted)
            if seat is not None:
                assert seat.after == rooms.room(after)
            count = rooms.count(room, pod)
            if count is not None:
                assert count == capacity.filled(frame, state, pod).count


def test_the_quick_way_is_taken_where_one_node_must_hold_all():
    rng = random.Random(1)
    frame = a_frame(rng, policy="single-numa-node")
    rooms = Rooms(frame)
    assert rooms.room(frame.empty).is_simple
    assert rooms.ask(a_pod("p", (2, 1, 0))).of_node is not None
    assert rooms.ask(a_pod("p", (2, 1, 0), (2, 1, 0))).of_node is None  # two containers
    assert rooms.ask(a_pod("p", ("1500m", 1, 0))).of_node is None  # shares CPUs
    assert not Rooms(a_frame(rng, policy="restricted")).is_simple
