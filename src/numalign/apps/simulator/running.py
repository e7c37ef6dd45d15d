"""All runs of a scenario: each variant with each scheduler and each seed, some at the same time.

A run knows nothing of the others, so the results do not depend on how many go on at once.
"""

from __future__ import annotations

import math
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import Array, Value

from numalign.apps.simulator.building import Plan, jobs_of, mix_of, plans, shapes_of, sim_hosts
from numalign.core.fleet.simulation.model import Job, RunResult, SimHost
from numalign.core.fleet.simulation.observing import Observer
from numalign.core.fleet.simulation.run import Simulation, conservation_problems
from numalign.core.fleet.simulation.schedulers import scheduler_of
from numalign.wire.fleet.scenario.reading import Scenario

Progress = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """One run to do."""

    variant: int
    scheduler: str
    seed: int


@dataclass(frozen=True, slots=True)
class Done:
    task: Task
    result: RunResult
    seconds: float  # of CPU time; for people, never for the report


def tasks_of(scenario: Scenario) -> list[Task]:
    """Every run of a scenario, in the order of the report."""
    return [
        Task(number, scheduler, seed)
        for number, plan in enumerate(plans(scenario))
        for scheduler in plan.schedulers
        for seed in scenario.seeds
    ]


def prepared(scenario: Scenario, task: Task, plan: Plan | None = None) -> Simulation:
    """A run before its first event."""
    plan = plan or plans(scenario)[task.variant]
    rng = random.Random(f"hosts {task.seed}")  # noqa: S311 - a simulation, no secret

    def order(hosts: list[SimHost]) -> None:
        rng.shuffle(hosts)

    hosts = sim_hosts(plan, order)
    cpus = sum(host.allocatable.get("cpu", 0) for host in hosts) // 1000
    jobs = jobs_of(scenario, cpus, task.seed)
    mix = mix_of(scenario, jobs)
    observer = Observer(_moments(jobs, scenario.form.samples), mix, shapes_of(scenario, mix))
    chance = random.Random(f"choices {task.seed} {task.scheduler}")  # noqa: S311
    run = Simulation(
        hosts, jobs, scheduler_of(task.scheduler, mix), plan.controllers, observer, chance.randrange
    )
    run.result.variant, run.result.seed = plan.variant, task.seed
    run.result.scheduler = task.scheduler
    return run


def _moments(jobs: Sequence[Job], count: int) -> list[float]:
    """Evenly over the time in which work arrives: after that the fleet only empties."""
    last = max((job.at for job in jobs), default=0.0)
    return [last * i / (count - 1) for i in range(count)]


def done(scenario: Scenario, task: Task, progress: Progress | None = None) -> Done:
    """One whole run. What must always hold is checked at its end."""
    began = time.process_time()
    run = prepared(scenario, task)
    last = max((work.job.at for work in run.works), default=0.0)
    result = run.run(until=last, progress=progress)
    problems = list(conservation_problems(run))
    assert not problems, f"a simulation broke its own rules: {problems[0]}"
    return Done(task, result, time.process_time() - began)


def all_done(scenario: Scenario, jobs: int, on_progress: Callable[[float], bool]) -> Iterator[Done]:
    """Runs everything; ends early, with what there is, once ``on_progress`` says to stop."""
    tasks = tasks_of(scenario)
    if jobs <= 1:
        yield from _one_by_one(scenario, tasks, on_progress)
    else:
        yield from _side_by_side(scenario, tasks, jobs, on_progress)


def _one_by_one(
    scenario: Scenario, tasks: Sequence[Task], on_progress: Callable[[float], bool]
) -> Iterator[Done]:
    for number, task in enumerate(tasks):
        before = number / len(tasks)

        def progress(share: float, before: float = before) -> bool:
            return on_progress(before + share / len(tasks))

        found = done(scenario, task, progress)
        yield found
        if not found.result.is_complete:
            return


class _Shared:
    """What runs in other processes and the one that waits for them tell each other."""

    def __init__(self, tasks: int) -> None:
        self.shares = Array("d", tasks, lock=False)  # how much of each run is done
        self.is_stopped = Value("b", 0, lock=False)

    @property
    def done(self) -> float:
        return math.fsum(self.shares) / len(self.shares)


def _join(shared: _Shared) -> None:
    """In each process of the pool. Ctrl-C goes to all of them; only the first is to heed it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _there.append(shared)


_there: list[_Shared] = []


def _done_there(scenario: Scenario, number: int, task: Task) -> Done | None:
    shared = _there[-1]
    if shared.is_stopped.value:
        return None

    def progress(share: float) -> bool:
        shared.shares[number] = share
        return bool(shared.is_stopped.value)

    found = done(scenario, task, progress)
    shared.shares[number] = 1.0
    return found


def _side_by_side(
    scenario: Scenario, tasks: Sequence[Task], jobs: int, on_progress: Callable[[float], bool]
) -> Iterator[Done]:
    shared = _Shared(len(tasks))
    with ProcessPoolExecutor(jobs, initializer=_join, initargs=(shared,)) as pool:
        pending: set[Future[Done | None]] = {
            pool.submit(_done_there, scenario, i, task) for i, task in enumerate(tasks)
        }
        try:
            while pending:
                ready, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                yield from filter(None, (future.result() for future in ready))
                if on_progress(shared.done) and not shared.is_stopped.value:
                    # Those that go on end with what they have; the others do not begin.
                    shared.is_stopped.value = 1
                    pending = {future for future in pending if not future.cancel()}
        finally:
            shared.is_stopped.value = 1
            for future in pending:
                future.cancel()


def in_order(scenario: Scenario, found: Sequence[Done]) -> list[RunResult]:
    """The results in the order of the scenario, whoever came first."""
    place = {task: number for number, task in enumerate(tasks_of(scenario))}
    return [one.result for one in sorted(found, key=lambda one: place[one.task])]
