"""``python -m bench.fleet``: capacity, simulation and defragmentation of whole fleets.

CPU time, on one core: other work on the machine then matters little. ``--full`` adds the runs that
take minutes: the published traces, and 5,000 hosts with 100,000 pods in a process of its own.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from bench.plot import line_chart
from bench.sim import SCENARIOS, TRACES
from numalign.apps.capacity_metrics import CapacityMetrics
from numalign.apps.defrag.planning import DefragPlan, Question, let_in
from numalign.apps.simulator.report import charts
from numalign.apps.simulator.running import Task, done, prepared
from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.scheduling.rebuild import frame_of
from numalign.core.fleet import capacity, measures
from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.align import aligned
from numalign.core.fleet.defrag.descent import lowered
from numalign.core.fleet.defrag.places import Places, first_refused
from numalign.core.fleet.measures import ReferencePod
from numalign.core.kubelet import host as kubelet
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.settings import Version
from numalign.wire.fleet.scenario.reading import read
from numalign.wire.fleet.shapes import shape_of
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import document_of
from numalign.wire.kubelet.host_settings import default_config, host_settings

LARGE = """
apiVersion: numalign.io/v1
kind: Scenario
name: large
hosts: [{group: h, count: %(hosts)d, machine: "2s:1n:32c:2t,mem=256Gi"}]
work: [{preset: web-mix, pods: %(pods)d, hours: 48, load: 0.9}]
schedulers: [%(scheduler)s]
seeds: 1
samples: 20
"""


SHAPES = ("cpu=16,memory=64Gi", "cpu=8,memory=16Gi", "cpu=2,memory=4Gi")


def row(name: str, seconds: float, limit: float | None = None, note: str = "") -> None:
    target = "" if limit is None else f"< {limit:g} s"
    is_missed = limit is not None and seconds > limit
    print(f"  {name:<62}{seconds:>9.3f} s{target:>12}{'  MISSED' if is_missed else ''}  {note}")


def timed(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def random_fleet(count: int, pods: int) -> list[FleetHost]:
    """Hosts with 2 NUMA nodes, all different, each with so many random pods."""
    rng = random.Random(1)
    machine = synthetic_machine("2s:1n:32c:2t,mem=256Gi")
    settings = host_settings(default_config(machine), machine, version=Version.V1_36)
    frame = frame_of(PublishedPlacement(machine_info(machine), settings))
    found = []
    for number in range(count):
        state = frame.empty
        for i in range(pods):
            shape = shape_of(f"cpu={rng.choice([2, 4, 6, 8])},memory={rng.choice([4, 8, 12])}Gi")
            pod = type(shape)(f"{number}-{i}", f"{number}-{i}", "ns", (), shape.containers)
            state, _ = verdict_on(frame.host, state, frame.totals, pod)
        found.append(FleetHost(f"h{number}", frame, state))
    return found


def capacities() -> None:
    print("\nCapacity, best-effort policy: every host is asked, none is like another")
    fleet = random_fleet(5_000, 12)
    shape = shape_of("cpu=16,memory=64Gi")
    row("5,000 hosts, one shape", timed(lambda: capacity.capacities(fleet, shape)), 2.0)
    one = min(timed(lambda: capacity.capacities(fleet[:1], shape)) for _ in range(20))
    row("one host", one, 0.005)
    mix = [ReferencePod(text, shape_of(text), 1) for text in SHAPES]
    metrics = CapacityMetrics(CollectorRegistry(), mix, seconds_max=60)
    known = [(host.name, (host.frame, host.state)) for host in fleet]
    row(
        "metrics of 5,000 hosts for three shapes, the first time",
        timed(lambda: metrics.update(known)),
    )
    times = []
    for i in range(20):
        other = random_fleet(1, 12 - i % 4)[0]
        known[i] = (fleet[i].name, (fleet[i].frame, other.state))
        times.append(timed(lambda: metrics.update(known)))
    row("  when one host has changed", sorted(times)[10], 0.005)


def full_fleet(policy: str) -> list[FleetHost]:
    """279 hosts with 2,089 pods that take 85 % of the CPUs, as departures have left them.

    The size of a published instance of such problems; hosts and pods are of our making.
    """
    rng = random.Random(1)
    machine = synthetic_machine("2s:1n:22c:2t,mem=352Gi")
    fields = {"topologyManagerPolicy": policy, "reservedSystemCPUs": "0,44"}
    config = kubelet_config.load(
        msgspec.json.encode({**document_of(default_config(machine)), **fields}),
        version=Version.V1_36,
    )
    settings = host_settings(config, machine, version=Version.V1_36)
    frame = frame_of(PublishedPlacement(machine_info(machine), settings))
    states = [frame.empty] * 279
    there: list[tuple[int, str]] = []
    number = 0
    while len(there) < 2_089 or number < 6_000:
        if len(there) >= 2_089:
            host, uid = there.pop(rng.randrange(len(there)))
            states[host] = kubelet.cleaned(frame.host, kubelet.ended(states[host], uid))
            continue
        cpus = rng.choices([2, 4, 8, 16, 32], [15, 25, 30, 20, 10])[0]
        shape = shape_of(f"cpu={cpus},memory={2 * cpus}Gi")
        number += 1
        pod = replace(shape, uid=f"p{number}", name=f"p{number}")
        for host in rng.sample(range(279), 40):  # one that takes it, by chance
            after, verdict = verdict_on(frame.host, states[host], frame.totals, pod)
            if isinstance(verdict, Admitted):
                states[host] = kubelet.cleaned(frame.host, after)
                there.append((host, pod.uid))
                break
    return [FleetHost(f"h{i:03}", frame, state) for i, state in enumerate(states)]


def defragmentation() -> None:
    print("\nDefragmentation: 279 hosts with 2,089 pods, 85 % of the CPUs in use")
    hosts = full_fleet("single-numa-node")
    fleet = Places.of(hosts)
    movable = {uid for host in hosts for uid in host.state.pods}
    for sizes in ("cpu=43,memory=80Gi",), ("cpu=43,memory=80Gi",) * 4:
        pods = [replace(shape_of(text), uid=f"wanted-{i}") for i, text in enumerate(sizes)]
        question = Question(fleet, frozenset(movable), {}, {})
        plans: list[DefragPlan] = []
        seconds = timed(lambda: plans.append(let_in(question, pods)))  # noqa: B023 - called now
        made = f"{len(plans[0].moves)} moves, at least {plans[0].lower_bound} are needed"
        row(f"let in {len(sizes)} x {sizes[0]}", seconds, 5.0, made)
    shapes = ("cpu=32,memory=64Gi", "cpu=16,memory=32Gi", "cpu=8,memory=16Gi")
    mix = [ReferencePod(text, shape_of(text), 1) for text in shapes]
    found = []
    seconds = timed(lambda: found.append(lowered(fleet, movable, {}, mix, 50)))
    plan = found[0]
    assert first_refused(fleet, plan.moves) is None
    after = fleet.copy()
    assert all(after.move(move) for move in plan.moves)
    rates = [measures.fragment_rate(p.room for p in f.values()) for f in (fleet, after)]
    note = (
        f"{len(plan.moves)} moves: F {plan.before:.0f} -> {plan.after:.0f} CPUs (no plan below "
        f"{plan.least:.0f}), 16-core fragments {rates[0] * 100:.1f} -> {rates[1] * 100:.1f} %"
    )
    row("lower F_numa with at most 50 moves (2.4 %)", seconds, 5.0, note)
    spread = Places.of(full_fleet("best-effort"))
    everyone = {uid for place in spread.values() for uid in place.state.pods}
    seconds = timed(lambda: found.append(aligned(spread, everyone, {})))
    note = f"{len(found[1].moves)} moves for {found[1].misaligned} misaligned pods"
    row("align (best-effort policy)", seconds, 5.0, note)


def growth(plot: Path | None) -> None:
    print("\nCost per decision by hosts and over time (web mix, fragmentation)")
    series = []
    for hosts in (250, 500, 1_000, 2_000, 4_000):
        text = LARGE % {"hosts": hosts, "pods": hosts * 4, "scheduler": "fragmentation"}
        run = prepared(read(text.encode(), "large.yaml"), Task(0, "fragmentation", 1))
        end = max(work.job.at for work in run.works)
        points, before = [], 0
        for part in range(1, 9):
            start = time.process_time()
            run.advance(end * part / 8)
            seconds = time.process_time() - start
            count = run.result.attempts - before
            before = run.result.attempts
            points.append((float(part), seconds / max(1, count) * 1e3))
        series.append(charts.Series(f"{hosts:,} hosts", points))
        first, last = points[1][1], points[-1][1]
        print(f"  {hosts:>6} hosts: {first:6.2f} ms per decision early, {last:6.2f} ms late")
    if plot is not None:
        title = "Cost of one simulated decision, scheduler fragmentation"
        drawn = line_chart(title, "eighths of the run", "milliseconds of CPU time", series)
        plot.write_text(drawn)
        print(f"  {plot}")


def traces() -> None:
    print("\nPublished traces, one scheduler each")
    for name, limit in (("openb", 20.0), ("dlrm", 60.0)):
        text = (SCENARIOS / f"{name}.yaml").read_text()
        scenario = read(text.encode(), str(TRACES / f"{name}.yaml"))
        for scheduler in ("numalign/least-allocated", "fragmentation"):
            found = done(scenario, Task(0, scheduler, 1))
            placed = f"{found.result.placed} of {found.result.jobs} placed"
            row(f"{name}, {scheduler}", found.seconds, limit, placed)


def large() -> None:
    text = LARGE % {"hosts": 5_000, "pods": 100_000, "scheduler": "fragmentation"}
    found = done(read(text.encode(), "large.yaml"), Task(0, "fragmentation", 1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row("5,000 hosts, 100,000 pods, fragmentation", found.seconds, 300.0, f"peak {peak:.0f} MiB")


def main() -> int:
    """Prints the tables; 0 even where a target is missed, since machines are noisy."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long runs too")
    parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path, help="write the cost per decision as SVG")
    options = parser.parse_args()
    if options.large:
        large()
        return 0
    capacities()
    defragmentation()
    growth(options.plot)
    if options.full:
        if TRACES.is_dir():
            traces()
        subprocess.run([sys.executable, "-m", "bench.fleet", "--large"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
