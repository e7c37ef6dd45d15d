import random

import pytest
from tests.core.cluster.scheduling.kubelets import GPU, a_pod
from tests.core.fleet.fleets import a_frame, grown, sizes
from tests.core.fleet.test_capacity import a_host

from numalign.core.fleet import capacity, measures
from numalign.core.fleet.measures import ReferencePod
from numalign.core.fleet.rooms import Rooms
from numalign.core.kubelet.admission.verdict import verdict_on


def room_with(frame, *pods):
    rooms, state = Rooms(frame), frame.empty
    for pod in pods:
        state, _ = verdict_on(frame.host, state, frame.totals, pod)
    return rooms, state, rooms.room(state)


def test_what_stays_idle_when_a_class_fills_the_host_is_useless_to_it():
    # Free are 7 CPUs on one node and 8 on the other. Pods of 5: one on each, 2 and 3 stay idle.
    # Pods of 9: none, all 15 stay idle.
    one = room_with(a_host())
    five, nine = a_pod("a", (5, 1, 0)), a_pod("b", (9, 1, 0))
    mix = [ReferencePod("five", five, 3), ReferencePod("nine", nine, 1)]
    found = measures.f_numa([one], mix, "cpu")
    assert found.idle == 15
    assert found.expected == pytest.approx((3 * 5 + 1 * 15) / 4)
    assert found.share == pytest.approx(found.expected / 15)


def test_devices_are_judged_by_those_who_ask_for_them():
    one = room_with(a_host(gpus=(0, 0)), a_pod("x", (6, 1, 0)))  # node 0 has one CPU left
    with_gpu, without = a_pod("a", (2, 1, 1)), a_pod("b", (1, 1, 0))
    mix = [ReferencePod("gpu", with_gpu, 1), ReferencePod("cpu", without, 9)]
    assert measures.f_numa([one], mix, GPU).expected == 2
    assert measures.stranded(one[0], one[2], mix, GPU) == 2
    assert measures.stranded(one[0], one[2], mix, "cpu") == 0


@pytest.mark.parametrize("seed", range(12))
def test_f_numa_is_what_filling_by_the_managers_leaves(seed):
    rng = random.Random(seed)
    frame = a_frame(rng)
    state = grown(rng, frame, 6)
    rooms = Rooms(frame)
    room = rooms.room(state)
    pod = a_pod("m", sizes(rng))
    [cpus] = [c.limits["cpu"].value() for c in pod.containers]
    count = capacity.filled(frame, state, pod).count
    expected = room.idle("cpu") - cpus * count
    assert measures.useless(rooms, state, room, [ReferencePod("m", pod, 1)], "cpu") == expected


def test_the_fragment_rate_counts_what_is_beyond_whole_sixteens():
    _, _, room = room_with(a_host(cpus=20))  # free are 19 and 20
    assert measures.odd_cpus(room) == 3 + 4
    assert measures.fragment_rate([room]) == pytest.approx(7 / 39)
    assert measures.largest_on_a_node(room) == 20
