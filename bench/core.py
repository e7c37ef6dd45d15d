"""The deciding core: admissions, merges, choosing CPUs, filling a machine, large machines."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import figures
from bench.go_peer import LIMIT_SECONDS
from bench.timing import Row, Times, measured, show, times_of
from numalign.conformance import reading
from numalign.conformance.scenarios import Replay, prefer_lowest
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.cpu.distribute import Distribution, take_distributed
from numalign.core.kubelet.cpu.pack import PACKED, Strategy, take_packed
from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.topology.hints import HintSet, Region
from numalign.core.kubelet.topology.merge import Merger
from numalign.core.kubelet.topology.node_search import Need
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.machine.machine import HugePages
from numalign.core.pod import Container, Pod
from numalign.core.settings import ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity

INPUTS = Path(__file__).parent / "inputs"
GI = 1 << 30


def run(*, seconds: float, go: Mapping[str, float]) -> int:
    """Prints all tables; the number of rows that miss their target."""
    missed = show("One admission (4 CPUs, 8Gi, 1 GPU, 1 NIC; restricted)", admissions(seconds, go))
    missed += show("Filling 256 CPUs with 2-CPU pods", fills(go))
    missed += show("Merging hints (all subsets of the nodes)", merges(seconds))
    missed += show("Choosing CPUs", choices(seconds))
    missed += show("Large machines", large(seconds))
    state_bytes()
    return missed


def _input(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((INPUTS / f"{name}.json").read_text())
    return found


# Admissions.


def admissions(seconds: float, go: Mapping[str, float]) -> list[Row]:
    """One row per input file."""
    rows = []
    for name, recorded in figures.ADMIT_MIN_US.items():
        scenario = _input(name)
        replay = Replay(scenario, Version.V1_36)
        for step in scenario["steps"][:-1]:
            replay.step(step)
        pod = reading.pod(scenario["steps"][-1]["admit"])
        times = repeated_admissions(replay.host, replay.state, pod, seconds)
        limit = 10_000.0 if "8numa" in name and "devices-all" in name else None
        now = go.get(name)
        note = "Go was stopped" if now == LIMIT_SECONDS * 1e6 else ""
        rows.append(Row(name, times, recorded, now, _admit_target(name), limit, note))
    return rows


def _admit_target(name: str) -> float:
    if "2numa" in name:
        return 1
    if "8numa" in name:
        return 10_000 if "devices-all" in name else 20
    return 10 if "devices-all" in name else 1


def repeated_admissions(hosted: Host, state: HostState, pod: Pod, seconds: float) -> Times:
    """Admits and removes a pod under ever new uids; only the admission is timed."""
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 20 or time.perf_counter() < end:
        new = replace(pod, uid=f"pod-{len(samples)}")
        start = time.perf_counter()
        state, decision = admit(hosted, state, new, preferred=prefer_lowest)
        samples.append((time.perf_counter() - start) * 1e6)
        assert isinstance(decision, Admitted), decision
        state = host.cleaned(hosted, host.ended(state, new.uid))
    return times_of(samples)


def fills(go: Mapping[str, float]) -> list[Row]:
    """All pods of a file on an empty host."""
    rows = []
    for name, recorded in figures.FILL_MIN_US.items():
        scenario = _input(name)
        start = Replay(scenario, Version.V1_36)
        samples = []
        for _ in range(5):
            pods = [reading.pod(step["admit"]) for step in scenario["steps"]]
            samples.append(_filled(start.host, start.state, pods))
        rows.append(Row(name, times_of(samples), recorded, go.get(name), 20))
    return rows


def _filled(hosted: Host, state: HostState, pods: list[Pod]) -> float:
    start = time.perf_counter()
    admitted = 0
    for pod in pods:
        state, decision = admit(hosted, state, pod)
        admitted += isinstance(decision, Admitted)
    elapsed = (time.perf_counter() - start) * 1e6
    assert admitted == 127, admitted
    return elapsed


# Merging and choosing.


def merges(seconds: float) -> list[Row]:
    """R resources, each with every set of nodes as a hint, one node preferred."""
    rows = []
    for (nodes, count), recorded in figures.MERGE_MIN_US.items():
        everything = (1 << nodes) - 1
        any_set = Need(1, tuple((1 << node, 1) for node in range(nodes)))
        hints = HintSet(tuple(range(nodes)), 1, Region(everything, 0, (any_set,)))
        merger, answers = Merger(everything), [hints] * count
        times = measured(lambda m=merger, a=answers: m.best(a), seconds=seconds / 10)
        rows.append(Row(f"{nodes} nodes, {count} resources", times, recorded))
    return rows


def choices(seconds: float) -> list[Row]:
    """The raw choice of CPUs."""
    topologies = {
        nodes: reading.topology(_input(f"take-{nodes}numa")["machine"]) for nodes in (2, 4, 8)
    }
    rows = []
    for (nodes, kind, count, algorithm), recorded in figures.TAKE_MIN_US.items():
        topology = topologies[nodes]
        available = topology.all if kind == "all" else _odd_cores(topology)
        times = measured(
            lambda t=topology, a=available, n=count, how=algorithm: _taken(t, a, n, how),
            seconds=seconds / 10,
            least=20,
        )
        name = f"{topology.cpu_count} CPUs, {kind}, n={count}, {algorithm}"
        rows.append(Row(name, times, recorded, target=1))
    return rows


def _odd_cores(topology: CpuTopology) -> int:
    return sum(mask for core, mask in topology.cores.items() if core % 2)


def _taken(topology: CpuTopology, available: int, count: int, algorithm: str) -> int:
    if algorithm == "distributed":
        return take_distributed(topology, available, count, Distribution())
    strategy = Strategy(align_uncore=True) if algorithm == "packed-uncore" else PACKED
    return take_packed(topology, available, count, strategy)


# Large machines.


def large(seconds: float) -> list[Row]:
    """Machines that the kubelet cannot use at all."""
    rows = []
    for name, info in (("34 nodes, 2 with CPUs", _grace()), ("64 nodes", _wide(64))):
        for policy in ("single-numa-node", "restricted", "best-effort"):
            for pod_name, pod in (("one node", _pod(4, 8 * GI)), ("two nodes", _pod(40, 96 * GI))):
                if policy == "single-numa-node" and pod_name == "two nodes":
                    continue
                hosted, state = _half_filled(info, policy)
                state, decision = admit(hosted, state, pod)
                if not isinstance(decision, Admitted):
                    continue
                state = host.cleaned(hosted, host.ended(state, pod.uid))
                times = repeated_admissions(hosted, state, pod, seconds)
                rows.append(Row(f"{name}, {policy}, {pod_name}", times, limit_us=20_000))
    return rows


def _grace() -> MachineInfo:
    """Two nodes with CPUs and 32 more that are only memory, as on a GB200 host."""
    cores = [tuple(CoreInfo((s * 72 + c,), s) for c in range(72)) for s in range(2)]
    row = (10,) * 34
    first = [NodeInfo(s, 480 * GI, (), row, cores[s]) for s in range(2)]
    rest = [NodeInfo(n, 0, (), row) for n in range(2, 34)]
    return MachineInfo((*first, *rest), 2, 960 * GI)


def _wide(count: int) -> MachineInfo:
    nodes = []
    for n in range(count):
        cores = tuple(CoreInfo((n * 32 + c, n * 32 + 16 + c), n // 4) for c in range(16))
        row = tuple(10 if n == m else 12 if n // 4 == m // 4 else 32 for m in range(count))
        nodes.append(NodeInfo(n, 64 * GI, (HugePages(2 << 20, 512),), row, cores))
    return MachineInfo(tuple(nodes), count // 4, count * 64 * GI)


def _pod(cpus: int, memory: int) -> Pod:
    amounts = {
        "cpu": Quantity.of(cpus),
        "memory": Quantity.of(memory),
        "example.com/gpu": Quantity.of(1 if cpus < 32 else 2),
    }
    return Pod("large", containers=(Container("c", amounts, amounts),))


def _half_filled(info: MachineInfo, policy: str) -> tuple[Host, HostState]:
    hosted = host.build(static_settings(policy), info)
    state = host.start(hosted)
    with_cpus = [node.id for node in info.nodes if node.cores]
    items = [devices.Device(f"gpu-{n:03}", (with_cpus[n % len(with_cpus)],)) for n in range(256)]
    reported = devices.with_reported(
        state.devices, "example.com/gpu", devices.device_resource(items)
    )
    state = replace(state, devices=reported)
    for number in range(len(with_cpus)):
        new = replace(_pod(4, 4 * GI), uid=f"first-{number}")
        state, _ = admit(hosted, state, new)
    return hosted, state


def static_settings(policy: str) -> Settings:
    """Static managers on a machine of any size."""
    return Settings(
        topology_policy=policy,
        topology_options={"max-allowable-numa-nodes": "64"},
        cpu_policy="static",
        memory_policy="Static",
        reserved_memory=(ReservedMemory(0, "memory", Quantity.of(GI)),),
        node_allocatable_reservation={"cpu": Quantity.of(2), "memory": Quantity.of(GI)},
    )


def state_bytes() -> None:
    """What a host with 512 CPUs and 1,000 pods keeps in memory."""
    tracemalloc.start()
    hosted = host.build(static_settings("best-effort"), _wide(16))
    state = host.start(hosted)
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1_000):
        amounts = {"cpu": Quantity.of(1), "memory": Quantity.of(GI // 4)}
        if number >= 400:
            amounts["cpu"] = Quantity.parse("100m")
        pod = Pod(
            f"00000000-0000-4000-8000-{number:012}", containers=(Container("c", amounts, amounts),)
        )
        state, decision = admit(hosted, state, pod)
        assert isinstance(decision, Admitted), decision
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    pods = len(state.pods)
    print(f"\nState of 512 CPUs and {pods} pods: {(after - before) / 1e6:.1f} MB (limit 20 MB)")
