import random
from dataclasses import replace

import pytest
from tests.core import hosts
from tests.core.cluster.scheduling.kubelets import GPU, a_pod
from tests.core.fleet.fleets import a_frame, grown, sizes

from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.scheduling.rebuild import frame_of, free_by_node
from numalign.core.fleet import capacity
from numalign.core.fleet.capacity import FleetHost, Where
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Device
from numalign.core.what_if import largest_fit


def counted_one_by_one(frame, state, pod):
    count = 0
    while True:
        state, verdict = verdict_on(frame.host, state, frame.totals, replace(pod, uid=f"n{count}"))
        if not isinstance(verdict, Admitted):
            return count
        count += 1


@pytest.mark.parametrize("seed", range(40))
def test_as_many_fit_as_the_host_takes_one_after_the_other(seed):
    rng = random.Random(seed)
    frame = a_frame(rng)
    state = grown(rng, frame, rng.randrange(8))
    pod = a_pod("shape", sizes(rng))
    assert capacity.filled(frame, state, pod).count == counted_one_by_one(frame, state, pod)


def a_host(policy="single-numa-node", gpus=(), cpus=8, pods_max=110, nodes=2):
    """NUMA nodes of ``cpus`` CPUs and 16 GiB; CPU 0 is reserved."""
    info = hosts.machine(nodes, cpus, 1, memory=16 * hosts.GI)
    devices = {GPU: tuple(Device(f"g{i}", (node,)) for i, node in enumerate(gpus))} if gpus else {}
    settings = hosts.settings(policy, memory=True)
    return frame_of(PublishedPlacement(info, settings, devices, (), 0, pods_max))


@pytest.mark.parametrize(
    ("shape", "options", "count", "where", "resources"),
    [
        ((5, 1, 0), {}, 2, Where.NODE, ("cpu",)),
        ((8, 1, 0), {"cpus": 16}, 3, Where.TOTAL, ("cpu",)),
        ((2, 1, 1), {"gpus": (0, 1)}, 2, Where.TOTAL, (GPU,)),
        ((2, 1, 1), {}, 0, Where.TOTAL, (GPU,)),
        ((1, 9, 0), {}, 2, Where.NODE, ("memory",)),
        ((1, 1, 0), {"pods_max": 3}, 3, Where.TOTAL, ("pods",)),
    ],
)
def test_what_binds_is_told(shape, options, count, where, resources):
    frame = a_host(**options)
    found = capacity.filled(frame, frame.empty, a_pod("shape", shape))
    assert (found.count, found.binding.where, found.binding.resources) == (count, where, resources)


def test_resources_on_different_nodes_bind_together():
    frame = a_host(gpus=(0, 0))
    state = frame.empty
    state, _ = verdict_on(frame.host, state, frame.totals, a_pod("a", (6, 1, 0)))  # fills node 0
    found = capacity.filled(frame, state, a_pod("shape", (4, 1, 1)))
    assert found.count == 0
    assert found.binding.where is Where.TOGETHER
    assert GPU in found.binding.resources


@pytest.mark.parametrize("seed", range(60))
def test_what_binds_is_what_a_count_by_hand_finds(seed):
    rng = random.Random(seed)
    frame = a_frame(rng, policy="single-numa-node")
    state = grown(rng, frame, rng.randrange(8))
    size = sizes(rng)
    pod = a_pod("shape", size)
    found = capacity.filled(frame, state, pod)
    for i in range(found.count):
        state, _ = verdict_on(frame.host, state, frame.totals, replace(pod, uid=f"n{i}"))
    asked = {name: q.value() for name, q in pod.containers[0].limits.items()}
    left = largest_fit.left(frame.host, state, frame.totals)
    left["cpu"] //= 1000
    nodes = [{n: a // NANOS for n, a in own.items()} for own in free_by_node(frame, state).values()]

    def on_nodes(name):
        return [own[name] for own in nodes if name in own]

    binding = found.binding
    match binding.where:
        case Where.TOTAL:
            for name in binding.resources:
                least = [left.get(name, 0), *([sum(on_nodes(name))] if on_nodes(name) else [])]
                assert min(least) < asked.get(name, 1), name
        case Where.NODE:
            for name in binding.resources:
                assert max(on_nodes(name)) < asked[name] <= sum(on_nodes(name))
        case Where.TOGETHER:
            names = [name for name in binding.resources if on_nodes(name)]
            assert all(max(on_nodes(name)) >= asked[name] for name in names)
            assert not any(all(own.get(n, 0) >= asked[n] for n in names) for own in nodes)
        case Where.RULE:
            assert binding.words


def test_equal_hosts_are_filled_once_and_pools_are_summed():
    frame = a_host()
    state, _ = verdict_on(frame.host, frame.empty, frame.totals, a_pod("a", (6, 1, 0)))
    other, _ = verdict_on(frame.host, frame.empty, frame.totals, a_pod("b", (6, 1, 0)))
    fleet = [
        FleetHost("one", frame, state, "a"),
        FleetHost("two", frame, other, "a"),
        FleetHost("three", frame, frame.empty, "b"),
    ]
    found = capacity.capacities(fleet, a_pod("shape", (5, 1, 0)))
    assert {name: one.count for name, one in found.items()} == {"one": 1, "two": 1, "three": 2}
    assert found["one"] is found["two"]
    assert capacity.by_pool(fleet, found) == {"a": 2, "b": 2}


def test_a_host_that_is_closed_to_the_pod_has_room_for_none():
    frame = a_host()
    fleet = [FleetHost(name, frame, frame.empty) for name in ("open", "closed")]
    found = capacity.capacities(
        fleet, a_pod("shape", (5, 1, 0)), lambda name: "cordoned" if name == "closed" else None
    )
    assert (found["open"].count, found["closed"].count) == (2, 0)
    assert (found["closed"].binding.where, found["closed"].binding.words) == (
        Where.RULE,
        "cordoned",
    )
