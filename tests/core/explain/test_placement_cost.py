"""How far a placement reaches, by hand."""

from dataclasses import replace

from tests.core.explain.recorded_refusals import machine_of
from tests.core.hosts import GI, machine
from tests.core.snapshots import gpus

from numalign.core.explain.placement_cost import costs
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.kubelet.decisions import Placement
from numalign.core.kubelet.devices.devices import DeviceState, device_resource
from numalign.core.kubelet.state import Block
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.machine.machine import MemoryPath

GPU = "example.com/gpu"
INFO = machine(2)
DEVICES = DeviceState({GPU: device_resource(gpus(0, 1))})


def cost(placement, on=None, pool=0):
    [found] = costs(on or machine_of(INFO), cpu_topology(INFO), DEVICES, (placement,), pool)
    return found


def placed(cpus, memory=(), devices=None):
    blocks = tuple(Block(nodes, "memory", GI) for nodes in memory)
    return Placement("c", Hint(None, preferred=True), cpus, blocks, devices or {})


def test_all_on_one_node_is_local():
    found = cost(placed(0b1111, [(0,)], {GPU: ("gpu0",)}))
    for reach in (found.cpu_to_memory, found.cpu_to_devices, found.memory_to_devices):
        assert (reach.local, reach.mean, reach.worst) == (1.0, 10.0, 10)


def test_a_quarter_of_the_cpus_elsewhere_reaches_further():
    found = cost(placed(0b1_0000_0111, [(0,)])).cpu_to_memory
    assert (found.local, found.mean, found.worst) == (0.75, 0.75 * 10 + 0.25 * 32, 32)


def test_memory_on_two_nodes_is_half_local():
    found = cost(placed(0b1, [(0, 1)], {GPU: ("gpu1",)}))
    assert (found.cpu_to_memory.local, found.cpu_to_memory.mean) == (0.5, 21.0)
    assert found.cpu_to_devices.local == 0.0
    assert found.memory_to_devices.local == 0.5


def test_a_container_of_the_shared_pool_counts_with_the_pool():
    found = cost(placed(None, [(0,)]), pool=0b1111_1111_0000_0000)
    assert found.cpu_to_memory.local == 0.0


def test_what_is_not_its_own_has_no_reach():
    found = cost(placed(0b1))
    assert (found.cpu_to_memory, found.cpu_to_devices, found.read_latency_ns) == (None, None, None)


def test_the_firmware_latency_is_weighed_by_cpus_and_bytes():
    paths = (MemoryPath(0, 0, 100), MemoryPath(0, 1, 300))
    on = replace(machine_of(INFO), memory_paths=paths)
    assert cost(placed(0b1, [(0, 1)]), on).read_latency_ns == 200.0
    assert cost(placed(0b1_0000_0001, [(0, 1)]), on).read_latency_ns is None


def test_without_distances_only_the_local_share_is_known():
    bare = machine_of(INFO)
    bare = replace(bare, nodes=tuple(replace(n, distances=None) for n in bare.nodes))
    found = cost(placed(0b1, [(0, 1)]), bare).cpu_to_memory
    assert (found.local, found.mean, found.worst) == (0.5, None, None)
