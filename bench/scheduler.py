"""The scheduler's core on 5,000 hosts with 8 NUMA nodes, beside the figures of the real plugin.

The plugin (NodeResourceTopologyMatch) cannot be built from modules, so its recorded times stand in;
its decisions on the same hosts are held in tests/core/cluster/test_recorded_hosts.py. Every host is
looked at: a kube-scheduler with its default settings stops at 500 of 5,000.
"""

from __future__ import annotations

import itertools
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.core.cluster.scheduling import recorded_hosts
from tests.core.cluster.scheduling.kubelets import Kubelet, a_pod

from bench.timing import Row, measured, show, times_of
from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.evaluate import evaluated
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import need_of
from numalign.core.cluster.nrt_match.record import record_of
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.kubelet import host
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.pod import Pod
from numalign.core.settings import ReservedMemory, Settings
from numalign.core.values.quantity import Quantity

HOSTS = 5_000
GI = 1 << 30
MS = 1_000.0
STATES = 60  # different hosts; the others are copies of them
MEMORY_MB_MAX = 600

# Least time of the plugin for Filter and for Score, in microseconds per host.
PLUGIN_US = {
    ("gu1", "container"): (93, {"Least": 65, "Most": 69, "Balanced": 70, "LeastNUMA": 105}),
    ("gu3", "container"): (125, {"Least": 79, "Most": 69, "Balanced": 70, "LeastNUMA": 189}),
    ("gu1", "pod"): (73, {"Least": 59, "Most": 60, "Balanced": 65, "LeastNUMA": 106}),
    ("gu3", "pod"): (84, {"Least": 47, "Most": 44, "Balanced": 44, "LeastNUMA": 72}),
}
SHORT = {
    Strategy.LEAST_ALLOCATED: "Least",
    Strategy.MOST_ALLOCATED: "Most",
    Strategy.BALANCED_ALLOCATION: "Balanced",
    Strategy.LEAST_NUMA_NODES: "LeastNUMA",
}


def run(*, seconds: float) -> int:
    """Prints all tables; the number of rows that miss their target."""
    missed = 0
    if recorded_hosts.FOLDER.is_dir():
        topologies = recorded_hosts.topologies()
        title = f"One pod on {HOSTS:,} hosts by the common rules: filter and score"
        missed += show(title, common(topologies, seconds))
        missed += show("Following changes, by the common rules", changes(topologies, seconds))
    else:
        print(f"\nThe scheduler by the common rules: skipped, {recorded_hosts.MISSING}")
    missed += show(f"One pod on {HOSTS:,} hosts, exactly", exact(seconds))
    used = memory_mb()
    is_over = used > MEMORY_MB_MAX
    print(
        f"  memory with {HOSTS:,} hosts and their placements: {used} MB "
        f"(target under {MEMORY_MB_MAX} MB){'  MISSED' if is_over else ''}"
    )
    return missed + is_over


# By the common rules.


def common(topologies: list[HostTopology], seconds: float) -> Iterator[Row]:
    """Each pod, scope and strategy, nothing kept from before."""
    pods = {name: need_of(pod) for name, pod in recorded_hosts.pods().items()}
    for scope in ("container", "pod"):
        columns = Columns()
        for topology in topologies:
            scoped = recorded_hosts.with_scope(topology, scope)
            columns.put(record_of(topology.name, scoped, recorded_hosts.ALLOCATABLE))
        for name in ("gu1", "gu3"):
            filter_us, score_us = PLUGIN_US[name, scope]
            for strategy, short in SHORT.items():
                yield Row(
                    f"{name}, scope {scope}, {strategy.value}",
                    measured(
                        lambda n=name, c=columns, s=strategy: evaluated(c, pods[n], s, {}),
                        seconds=seconds / 4,
                    ),
                    go_recorded_us=(filter_us + score_us[short]) * HOSTS,
                    limit_us=2 * MS,
                )


def changes(topologies: list[HostTopology], seconds: float) -> Iterator[Row]:
    """CpusetPlacement pods one after the other, and taking up what hosts publish."""
    cluster = Fleet(is_exact=False)
    for topology in topologies:
        allocatable = dict.fromkeys(recorded_hosts.ALLOCATABLE, 1)
        cluster.host_changed(HostFacts(topology.name, allocatable=allocatable))
        cluster.topology_changed(topology)
    numbers = itertools.count()
    rng = random.Random(1)
    shapes = [(rng.randrange(1, 5), rng.randrange(1, 9), rng.randrange(2)) for _ in range(30)]

    def place() -> None:
        pod = a_pod(f"pod-{next(numbers)}", rng.choice(shapes))
        name = cluster.choose(pod, lambda _: True)
        assert name is not None, "5,000 half empty hosts have room for it"
        cluster.pod_placed(name, pod)

    times = measured(place, seconds=seconds)
    rate = f"{1e6 / times.median:,.0f} pods/s; the stock scheduler's floor is 270"
    yield Row("choose and place one of 30 shapes", times, limit_us=2 * MS, note=rate)
    turn = itertools.cycle(topologies)
    yield Row(
        "take up one NodeResourceTopology",
        measured(lambda: cluster.topology_changed(next(turn)), seconds=seconds),
        limit_us=200,
    )


# Exactly.


def exact(seconds: float) -> Iterator[Row]:
    """Hosts of all policies, about half full."""
    cluster, topologies = exact_cluster()
    numbers = itertools.count()

    def a_new_pod() -> Pod:
        # A little more memory each time makes it a shape that no host was asked about before.
        number = next(numbers)
        pod = a_pod(f"new-{number}", (4, 8, 1))
        (container,) = pod.containers
        amounts = {**container.limits, "memory": Quantity.of(8 * GI + number)}
        return replace(pod, containers=(replace(container, requests=amounts, limits=amounts),))

    def choose() -> None:
        assert cluster.choose(a_new_pod(), lambda _: True) is not None

    times = measured(choose, seconds=seconds)
    yield Row("choose a host, a new shape each time", times, limit_us=20 * MS)
    known = [a_pod(f"known-{i}", (2 + i % 6, 4, i % 2)) for i in range(20)]
    samples = []
    end = time.perf_counter() + seconds
    for number in itertools.count():
        pod = replace(known[number % len(known)], uid=f"p{number}", name=f"p{number}")
        start = time.perf_counter()
        name = cluster.choose(pod, lambda _: True)
        if name is not None:
            cluster.pod_placed(name, pod)
        samples.append((time.perf_counter() - start) * 1e6)
        if time.perf_counter() > end:
            break
    times = times_of(samples)
    note = f"{len(samples) / (sum(samples) / 1e6):,.0f} pods/s"
    yield Row("choose and place one of 20 shapes", times, limit_us=20 * MS, note=note)
    turn = itertools.cycle(topologies)
    yield Row(
        "take up one placement",
        measured(lambda: cluster.topology_changed(next(turn)), seconds=seconds),
    )


def exact_cluster() -> tuple[Fleet, list[HostTopology]]:
    """5,000 hosts with 8 NUMA nodes of 16 CPUs that publish their placement."""
    rng = random.Random(7)
    models = [_filled(rng, number) for number in range(STATES)]
    cluster = Fleet()
    topologies = []
    for number in range(HOSTS):
        model, facts, pods = models[number % STATES]
        name = f"host-{number:04}"
        topology = replace(model, name=name)
        cluster.host_changed(replace(facts, name=name))
        for pod in pods:
            cluster.pod_placed(name, pod)
        cluster.topology_changed(topology)
        topologies.append(topology)
    return cluster, topologies


def _filled(rng: random.Random, number: int) -> tuple[HostTopology, HostFacts, list[Pod]]:
    policies = ("single-numa-node", "restricted", "best-effort")
    settings = Settings(
        topology_policy=policies[number % 3],
        topology_scope=("container", "pod")[number % 2],
        cpu_policy="static",
        reserved_cpus="0",
        memory_policy="Static",
        reserved_memory=(ReservedMemory(0, "memory", Quantity.of(GI)),),
        node_allocatable_reservation={"cpu": Quantity.of(1), "memory": Quantity.of(GI)},
    )
    gpus = tuple(Device(f"gpu-{i:02}", (i // 2,)) for i in range(16))
    kubelet = Kubelet("model", host.build(settings, _machine()), {"vendor.com/gpu": gpus})
    for pod_number in range(rng.randrange(8, 24)):
        sizes = (rng.choice([2, 4, 6, 8]), rng.choice([2, 8, 16]), rng.choice([0, 0, 1]))
        kubelet.inbox.append(("came", a_pod(f"old-{number}-{pod_number}", sizes)))
    kubelet.work(len(kubelet.inbox))
    pods = list(kubelet.state.pods.values())
    kubelet.publish()
    return kubelet.published[0], kubelet.facts(), pods


def _machine() -> MachineInfo:
    nodes = tuple(
        NodeInfo(
            node,
            64 * GI,
            (),
            tuple(_distance(node, other) for other in range(8)),
            tuple(
                CoreInfo((node * 16 + core * 2, node * 16 + core * 2 + 1), node // 4)
                for core in range(8)
            ),
        )
        for node in range(8)
    )
    return MachineInfo(nodes, 2, 8 * 64 * GI)


def _distance(node: int, other: int) -> int:
    if node == other:
        return 10
    return 12 if node // 4 == other // 4 else 32


def memory_mb() -> int:
    """The memory of a process that holds the hosts, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.scheduler", "--memory"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return int(done.stdout)


def main() -> None:
    """The tables, or (``--memory``) only the hosts and what they take."""
    if "--memory" in sys.argv:
        _kept = exact_cluster()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        return
    run(seconds=1.0)


if __name__ == "__main__":
    main()
