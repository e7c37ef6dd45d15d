"""What is idle to no use, in numbers and words, on hosts that were filled by their own managers."""

import random

import pytest
from tests.core import hosts
from tests.core.cluster.scheduling.kubelets import GPU, a_pod
from tests.core.fleet.fleets import a_frame, grown

from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.scheduling.rebuild import frame_of, free_by_node
from numalign.core.fleet.measures import ReferencePod
from numalign.core.fleet.stranded import Stranded, stranded_on, unused_by_shapes
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Device

GI = hosts.GI


def a_host(*, cpu_nodes=None):
    """Two nodes of 8 CPUs and 16 GiB, one of them reserved, and a GPU on each."""
    info = hosts.machine(2, 4, 2, cpu_nodes=cpu_nodes)
    gpus = tuple(Device(f"g{n}", (n,)) for n in range(2))
    placement = PublishedPlacement(
        info, hosts.settings("single-numa-node", reserved="0-1"), {GPU: gpus}
    )
    return frame_of(placement)


def with_pods(frame, *sizes):
    state = frame.empty
    for number, size in enumerate(sizes):
        pod = a_pod(f"p{number}", size)
        state, verdict = verdict_on(frame.host, state, frame.totals, pod)
        assert isinstance(verdict, Admitted), verdict
    return state


def test_nothing_is_stranded_on_an_empty_host():
    frame = a_host()
    assert stranded_on(frame, frame.empty) == []


def test_memory_and_devices_beside_no_cpus_are_stranded_and_said_in_words():
    frame = a_host()
    [found] = stranded_on(frame, with_pods(frame, (6, 3, 0)))  # all that node 0 can give
    assert (found.node, found.missing) == (0, ("cpu",))
    assert found.idle == {"memory": 12 * GI, GPU: 1}
    assert found.text == f"12 GiB and 1 {GPU} are idle beside 0 free CPUs"


def test_cpus_beside_no_memory_are_stranded():
    frame = a_host()
    [found] = stranded_on(frame, with_pods(frame, (1, 15, 0)))
    assert found.missing == ("memory",)
    assert found.idle == {"cpu": 5, GPU: 1}
    assert found.text == f"5 CPUs and 1 {GPU} are idle beside no free memory"


def test_a_little_memory_on_a_full_node_is_no_news():
    frame = a_host()
    assert stranded_on(frame, with_pods(frame, (6, 15, 1))) == []
    [found] = stranded_on(frame, with_pods(frame, (6, 14, 1)))
    assert found.text == "1 GiB is idle beside 0 free CPUs"


def test_a_node_that_never_had_cpus_is_not_stranded():
    info = hosts.machine(2, 4, 2, cpu_nodes=[0])
    frame = frame_of(PublishedPlacement(info, hosts.settings("best-effort", reserved="0-1")))
    assert stranded_on(frame, frame.empty) == []


def test_what_no_shape_can_use_is_told_only_where_none_fits():
    frame = a_host()
    mix = [ReferencePod("four", a_pod("four", (4, 4, 0)), 1)]
    assert unused_by_shapes(frame, frame.empty, mix) == []
    state = with_pods(frame, (4, 1, 0))
    [found] = unused_by_shapes(frame, state, mix)
    assert (found.node, found.by_shapes) == (0, True)
    assert found.idle == {"cpu": 2, "memory": 14 * GI}, "no shape asks for a GPU"
    assert found.text == "2 CPUs and 14 GiB are idle where no reference shape fits"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_stranded_is_free_and_nobody_with_cpus_and_memory_can_have_it(seed):
    rng = random.Random(seed)
    frame = a_frame(rng, policy="single-numa-node")
    state = grown(rng, frame, 14)
    free = free_by_node(frame, state)
    for found in stranded_on(frame, state):
        assert found.idle
        for name, amount in found.idle.items():
            assert free[found.node][name] // NANOS == amount > 0
        for name in found.missing:
            assert free[found.node][name] // NANOS < (1 << 20)


def test_one_thing_is_idle_and_two_are():
    one = Stranded(0, {GPU: 1}, ("cpu", "memory"))
    assert one.text == f"1 {GPU} is idle beside 0 free CPUs and no free memory"
