"""How far a placement reaches: an estimate from the distances that the firmware tells.

Every CPU of a container is taken to use every byte of its memory, and every device, alike. That is
an estimate and no measurement: what a program really touches, nobody knows before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.kubelet.decisions import Placement
from numalign.core.kubelet.devices.devices import DeviceState
from numalign.core.machine.machine import Machine

Weights = Mapping[int, float]  # node -> share, together 1
Distance = Callable[[int, int], int | None]  # from node to node; None: not known


@dataclass(frozen=True, slots=True)
class Reach:
    """From one kind of place to another: the local share and the SLIT distances, 10 = local."""

    local: float  # share of all pairs that are on one node
    mean: float | None  # None: the machine tells no distances
    worst: int | None


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimate for one container; None where it has nothing of that kind of its own."""

    container: str
    cpu_to_memory: Reach | None
    cpu_to_devices: Reach | None
    memory_to_devices: Reach | None
    read_latency_ns: float | None = None  # CPUs to memory, mean, where the firmware has HMAT


def costs(
    machine: Machine,
    places: CpuTopology,
    devices: DeviceState,
    placements: tuple[Placement, ...],
    pool: int,
) -> list[Cost]:
    """The estimate for each container; ``pool`` are the CPUs of those without their own."""
    return [_cost(machine, places, devices, placement, pool) for placement in placements]


def reaches(
    distance: Distance, places: CpuTopology, devices: DeviceState, placed: Placement, pool: int
) -> tuple[Reach | None, Reach | None, Reach | None]:
    """From CPUs to memory, from CPUs to devices, and from memory to devices."""
    cpus, bytes_at = _cpu_shares(places, placed, pool), _memory_shares(placed)
    devices_at = _shares(_device_nodes(devices, placed))
    pairs = ((cpus, bytes_at), (cpus, devices_at), (bytes_at, devices_at))
    one, two, three = (_reach(distance, start, end) for start, end in pairs)
    return one, two, three


def _cost(
    machine: Machine, places: CpuTopology, devices: DeviceState, placed: Placement, pool: int
) -> Cost:
    known = machine.node_set

    def distance(start: int, end: int) -> int | None:
        return machine.distance(start, end) if start in known and end in known else None

    latency = _latency(machine, _cpu_shares(places, placed, pool), _memory_shares(placed))
    return Cost(placed.container, *reaches(distance, places, devices, placed, pool), latency)


def _cpu_shares(places: CpuTopology, placed: Placement, pool: int) -> Weights:
    cpus = pool if placed.cpus is None else placed.cpus
    return _shares({node: float((mask & cpus).bit_count()) for node, mask in places.nodes.items()})


def _memory_shares(placed: Placement) -> Weights:
    memory: dict[int, float] = {}
    for block in placed.memory:
        for node in block.nodes:  # of several nodes each gives an equal part
            memory[node] = memory.get(node, 0.0) + block.size / len(block.nodes)
    return _shares(memory)


def _device_nodes(devices: DeviceState, placed: Placement) -> dict[int, float]:
    found: dict[int, float] = {}
    for resource, ids in placed.devices.items():
        known = devices.resources.get(resource)
        for device in ids:
            nodes = () if known is None else known.nodes_of.get(device, ())
            for node in nodes:  # near to several nodes: half of it on each
                found[node] = found.get(node, 0.0) + 1 / len(nodes)
    return found


def _shares(amounts: Mapping[int, float]) -> Weights:
    total = sum(amounts.values())
    return {n: a / total for n, a in amounts.items() if a} if total else {}


def _reach(distance: Distance, start: Weights, end: Weights) -> Reach | None:
    pairs = [(a, b, wa * wb) for a, wa in start.items() for b, wb in end.items()]
    if not pairs:
        return None
    local = sum(weight for a, b, weight in pairs if a == b)
    steps = [(distance(a, b), weight) for a, b, weight in pairs]
    distances = [step for step, _ in steps if step is not None]
    if len(distances) < len(steps):
        return Reach(local, None, None)
    mean = sum(d * weight for d, (_, weight) in zip(distances, steps, strict=True))
    return Reach(local, mean, max(distances))


def _latency(machine: Machine, cpus: Weights, memory: Weights) -> float | None:
    known = {(p.initiator, p.target): p.read_latency_ns for p in machine.memory_paths}
    total = 0.0
    for a, wa in cpus.items():
        for b, wb in memory.items():
            latency = known.get((a, b))
            if latency is None:
                return None
            total += latency * wa * wb
    return total if cpus and memory else None
