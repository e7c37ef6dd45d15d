import random

import pytest
from tests.core.cluster.scheduling.kubelets import GPU, Kubelet, a_pod
from tests.core.fleet.fleets import a_frame
from tests.core.fleet.test_capacity import a_host

from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.cluster.scheduling.fragmentation import Packing
from numalign.core.fleet.growth import Growth
from numalign.core.fleet.measures import ReferencePod
from numalign.core.kubelet.admission.verdict import verdict_on

MIX = [ReferencePod("four", a_pod("m", (4, 1, 0)), 1)]


def after(frame, state, pod):
    return verdict_on(frame.host, state, frame.totals, pod)[0]


def test_a_pod_that_breaks_a_whole_place_scores_below_one_that_fills_a_rest():
    growth = Growth(MIX)
    frame = a_host()  # 7 and 8 CPUs: three are over on the first node
    rest = growth.of_states(frame, frame.empty, after(frame, frame.empty, a_pod("a", (3, 1, 0))))
    taken = after(frame, frame.empty, a_pod("x", (7, 1, 0)))  # only the second node is left
    broken = growth.of_states(frame, taken, after(frame, taken, a_pod("b", (3, 1, 0))))
    assert rest > 50 > broken


def test_a_gpu_that_becomes_useless_counts():
    mix = [ReferencePod("gpu", a_pod("m", (4, 1, 1)), 1), *MIX]
    frame = a_host(gpus=(0,))
    beside = after(frame, frame.empty, a_pod("a", (4, 1, 0)))  # on the node with the GPU
    assert Growth(mix).of_states(frame, frame.empty, beside) < 50
    assert Growth(MIX).of_states(frame, frame.empty, beside) >= 50


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_within_their_range(seed):
    frame = a_frame(random.Random(seed))
    then = after(frame, frame.empty, a_pod("a", (2, 1, 0)))
    assert 0 <= Growth(MIX).of_states(frame, frame.empty, then) <= 100


def test_the_scheduler_fills_a_rest_before_it_breaks_a_whole_place():
    fleet = Fleet(pack=Packing.FRAGMENTATION, growth=Growth(MIX).of_states)
    frame = a_host()
    hosts = [Kubelet(name, frame.host, {}) for name in ("whole", "rest")]
    hosts[0].state = after(frame, hosts[0].state, a_pod("x", (7, 1, 0)))  # 8 left: two places
    hosts[1].state = after(frame, hosts[1].state, a_pod("y", (8, 1, 0)))  # 7 left: one and a rest
    for host in hosts:
        host.publish()
        fleet.host_changed(host.facts())
        fleet.topology_changed(host.published[-1])
    assert fleet.choose(a_pod("new", (3, 1, 0)), lambda _: True) == "rest"
    assert fleet.frame_and_state("rest") is not None
    assert GPU not in frame.empty.devices.resources
