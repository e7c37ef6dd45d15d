"""Containers as plain processes of the host, each in its own cgroups and below its own supervisor.

The agent may die at any moment: supervisors and containers go on, and ``adopt`` finds them again by
their records (see ``process_records``). Nothing here trusts a process number alone. A supervisor is
known by its lock, its number and its start time together, and signals go through a pidfd.

Without root there are no cgroups: CPUs are then set by affinity and memory by policy, which the
processes could change themselves, and limits are not enforced; ``notes`` says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import (
    CgroupTree,
    CpusetPlacement,
    container_group,
    pod_group,
    qos_group,
)
from numalign.adapters.daemon.beside import Beside
from numalign.adapters.local import descriptors
from numalign.adapters.processes import attached, callers, ending, proc_table, supervisors
from numalign.adapters.processes import drift as process_drift
from numalign.adapters.processes import found as found_runs
from numalign.adapters.processes.ending import KILL_SECONDS_MAX
from numalign.adapters.processes.found import START_SECONDS_MAX
from numalign.adapters.processes.inside import run_inside
from numalign.adapters.processes.records import (
    Record,
    Run,
    RunDirectory,
    RunSpec,
    readable_runs,
    run_directories,
    spec_items,
)
from numalign.adapters.processes.values import Drift, DriftKind, Exited, Expected, Observed, Running
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

SUPERVISOR_SECONDS_MAX: Final = 5.0  # to end after all of its container has
STARTS_MAX: Final = 8  # at the same time
LOOK_SECONDS: Final = 1.0
_SUPERVISORS: Final = process_drift.SUPERVISORS

__all__ = [
    "Drift",
    "DriftKind",
    "Exited",
    "Expected",
    "Observed",
    "ProcessRuntime",
    "RunSpec",
    "Running",
]


@dataclass(slots=True)
class _Starting:
    """A container that is being started: where it has to be by now, and where it was put."""

    group: str
    wanted: CpusetPlacement
    placed: CpusetPlacement | None = None  # once its group is there
    is_taken: bool = False  # whether its start is under way


@dataclass(slots=True)
class _Watched:
    """A run whose supervisor lives, as far as we have heard."""

    directory: RunDirectory
    record: Record
    run: Run
    handle: int | None  # pidfd of the supervisor; None: it has ended, or descriptors are short
    ended: asyncio.Future[Exited]
    is_told: bool  # whether its end is news


class ProcessRuntime:
    """Runs containers as processes; all state of its own is below ``root``."""

    def __init__(self, root: Path, cgroups: CgroupTree | None) -> None:
        self.root = root
        self.cgroups = cgroups if cgroups is not None and cgroups.hierarchies else None
        self.notes = self._notes(cgroups)
        self.faults: list[str] = []  # records that could not be read, for the operator
        self._runs = root / found_runs.RUNS
        self._runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shim = supervisors.compiled(root)
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._starting: dict[tuple[str, str], _Starting] = {}
        self._starts = asyncio.Semaphore(STARTS_MAX)
        self._moves = 0  # how often containers were moved
        self._files = Beside("numalign-runs", STARTS_MAX)
        self._places = Beside("numalign-place", 1)  # one: the last placement is the one that counts
        self._looks = Beside("numalign-look", 2)
        # A pod's group goes with its last container, and must not while another one is made in it.
        self._making_groups = threading.Lock()
        self._exits: asyncio.Queue[Exited] = asyncio.Queue()
        self._ends: set[asyncio.Task[None]] = set()  # of supervisors, being looked at
        if self.cgroups is not None:
            self.cgroups.make(_SUPERVISORS)

    def _notes(self, cgroups: CgroupTree | None) -> tuple[str, ...]:
        if self.cgroups is not None:
            return self.cgroups.notes
        if cgroups is not None:
            return cgroups.notes
        return (
            "without cgroups: containers are pinned by affinity and memory policy, which they can "
            "change themselves; CPU, memory and huge page limits are not enforced",
        )

    @property
    def _by_affinity(self) -> bool:
        return self.cgroups is None or not self.cgroups.has_cpuset

    # Starting.

    @contextmanager
    def expecting(
        self, key: tuple[str, str], qos: Qos, placement: CpusetPlacement
    ) -> Iterator[None]:
        """A container is being started from here on: moves that come meanwhile are for it too."""
        if key in self._watched or key in self._starting:
            raise PeerError(f"container {key[1]} of pod {key[0]} runs already")
        self._starting[key] = _Starting(container_group(qos, *key), placement)
        try:
            yield
        finally:
            del self._starting[key]

    @contextmanager
    def _taken(self, spec: RunSpec) -> Iterator[_Starting]:
        """The start that is expected, or one that becomes so; PeerError if there is one already."""
        key = spec.pod_uid, spec.container
        known = self._starting.get(key)
        if known is not None and not known.is_taken and key not in self._watched:
            known.is_taken = True
            yield known
            return
        with self.expecting(key, spec.qos, CpusetPlacement(spec.cpus, spec.mems)):
            yield self._starting[key]

    async def start(self, spec: RunSpec) -> Running | Exited:
        """Starts a container; Exited when its command could not be run (not told again).

        Others are served meanwhile, and the container may be moved before it runs.
        """
        with self._taken(spec) as starting:
            async with self._starts:
                started = await self._start(spec, starting)
        await self._catch_up(spec, starting)
        return started

    async def _catch_up(self, spec: RunSpec, starting: _Starting) -> None:
        """Without cgroups a process begins where it was wanted first, and is moved after that."""
        key = spec.pod_uid, spec.container
        if self._by_affinity and starting.wanted.cpus != spec.cpus and key in self._watched:
            await self.move({key: CpusetPlacement(starting.wanted.cpus)})

    async def _start(self, spec: RunSpec, starting: _Starting) -> Running | Exited:
        directory = self._directory(spec)
        if await self._files.run(directory.path.exists):
            raise PeerError(f"{directory.path}: this attempt was made before; count it up")
        joins, own = await self._make_groups(spec, starting)
        items = spec_items(spec, joins, own, by_affinity=self._by_affinity)
        if self.cgroups is None:
            mark = callers.mark_of(spec.pod_uid, spec.container)
            items.append(f"env={callers.MARK}={mark}")
        pid, report = await self._files.run(self._launch, directory, spec, items)
        await self._files.run(self._remove_earlier, spec)
        return await self._wait_for_start(directory, spec, pid, report)

    def _launch(self, directory: RunDirectory, spec: RunSpec, items: list[str]) -> tuple[int, int]:
        try:
            lock = directory.create(spec, items)
            return supervisors.spawned(self._shim, directory, lock)
        except (PeerError, ConfigError):
            self._remove_run(directory, spec)
            raise

    async def attach(self, spec: RunSpec, pid: int, start: int, boot: str) -> Running:
        """Puts a process that somebody else started in a container's place, and looks after it."""
        with self._taken(spec) as starting:
            handle = callers.handle_of(pid, start, boot)
            if handle is None:
                raise PeerError(f"process {pid} that was to become the command has ended")
            directory, run = self._directory(spec), Run(pid, start, pid, start, time.time_ns())
            try:
                record = await self._attach(directory, spec, run, boot, starting)
            except BaseException:
                os.close(handle)
                raise
            self._watch(directory, record, run, handle, is_told=True)
        await self._catch_up(spec, starting)
        return found_runs.running(record, run)

    def _remove_earlier(self, spec: RunSpec) -> None:
        """Only the last attempt of a container is kept: a restart counts it, the rest is over."""
        for path in (self._runs / spec.pod_uid).glob(f"{spec.container}.*"):
            name, _, attempt = path.name.rpartition(".")
            if name == spec.container and attempt.isdigit() and int(attempt) < spec.attempt:
                RunDirectory(path).remove()

    async def _attach(
        self, directory: RunDirectory, spec: RunSpec, run: Run, boot: str, starting: _Starting
    ) -> Record:
        record = await self._files.run(directory.create_attached, spec, run, boot)
        # Moves that come meanwhile follow in the same thread.
        placed = starting.placed = starting.wanted
        where = replace(spec, cpus=placed.cpus or spec.cpus, mems=placed.mems)
        try:
            await self._places.run(attached.place, self.cgroups, where, run.child)
        except PeerError:
            with suppress(PeerError):  # the process may be in it until it ends
                await self._files.run(self._remove_run, directory, spec)
            raise
        return record

    def _remove_run(self, directory: RunDirectory, spec: RunSpec) -> None:
        directory.remove()
        self._remove_groups(spec.qos, spec.pod_uid, spec.container)

    def _directory(self, one: RunSpec | Running | Exited) -> RunDirectory:
        return RunDirectory(self._runs / one.pod_uid / f"{one.container}.{one.attempt}")

    async def _make_groups(
        self, spec: RunSpec, starting: _Starting
    ) -> tuple[list[Path], list[Path]]:
        """Makes the groups of a run and gives the files by which to join them."""
        tree = self.cgroups
        if tree is None:
            return [], []
        group = starting.group
        await self._kill_group(group)
        await self._files.run(self._make_group, tree, spec, group)
        try:
            # It may be wanted elsewhere by the time that it is there.
            while starting.placed != starting.wanted:
                starting.placed = starting.wanted
                await self._places.run(tree.place, {group: starting.placed})
        except PeerError:
            await self._files.run(self._remove_groups, spec.qos, spec.pod_uid, spec.container)
            raise
        return tree.joins(group), tree.joins(_SUPERVISORS)

    def _make_group(self, tree: CgroupTree, spec: RunSpec, group: str) -> None:
        # A fresh group for each attempt: nothing of the last one is in it or counted in it.
        with self._making_groups:
            tree.remove(group)
            tree.make(group)
        try:
            if spec.pod_limits is not None:
                tree.limit(pod_group(spec.qos, spec.pod_uid), spec.pod_limits)
            tree.limit(group, spec.limits)
        except PeerError:
            self._remove_groups(spec.qos, spec.pod_uid, spec.container)
            raise

    async def _wait_for_start(
        self, directory: RunDirectory, spec: RunSpec, pid: int, report: int
    ) -> Running | Exited:
        try:
            handle = os.pidfd_open(pid)  # our own child, so the number is still its
        except OSError as error:
            os.close(report)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            group = container_group(spec.qos, spec.pod_uid, spec.container)
            await self._kill_group(group)
            self._remove_run(directory, spec)
            raise PeerError(f"container {spec.container}: {error.strerror}", retry=True) from error
        try:
            text = await asyncio.wait_for(supervisors.first_words(report), START_SECONDS_MAX)
        except TimeoutError:
            text = ""
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(report)
        record, run = await self._files.run(lambda: (directory.record, directory.run))
        if not text or record is None or run is None:
            await asyncio.wait_for(supervisors.readable(handle), KILL_SECONDS_MAX)
            supervisors.reaped(handle)
            os.close(handle)
            said = directory.complaint or f"no word within {START_SECONDS_MAX:g} s"
            await self._kill_group(container_group(spec.qos, spec.pod_uid, spec.container))
            await self._files.run(self._remove_run, directory, spec)
            raise PeerError(f"the supervisor of container {spec.container} failed: {said}")
        watched = self._watch(directory, record, run, handle, is_told=text == "ok")
        if text == "ok":
            return found_runs.running(record, run)
        return await watched.ended

    # The end.

    def _watch(
        self, directory: RunDirectory, record: Record, run: Run, handle: int, *, is_told: bool
    ) -> _Watched:
        loop = asyncio.get_running_loop()
        watched = _Watched(directory, record, run, handle, loop.create_future(), is_told)
        self._watched[record.pod_uid, record.container] = watched
        held = sum(one.handle is not None for one in self._watched.values())
        # How an attached process ends, only its handle tells.
        if record.is_attached or descriptors.is_handle_affordable(held):
            loop.add_reader(handle, self._supervisor_ended, watched)
        else:
            os.close(handle)
            watched.handle = None
            loop.call_later(LOOK_SECONDS, self._look_after, watched)
        return watched

    def _look_after(self, watched: _Watched) -> None:
        """Asks the table of processes about a supervisor for which no descriptor was left."""
        key = watched.record.pod_uid, watched.record.container
        if self._watched.get(key) is not watched:
            return
        try:
            is_alive = supervisors.is_alive(watched.run)
        except OSError:
            is_alive = True  # nothing can be opened just now
        if is_alive:
            loop = asyncio.get_running_loop()
            loop.call_later(LOOK_SECONDS, self._look_after, watched)
            return
        with suppress(ChildProcessError):  # one from before a restart is init's
            os.waitpid(watched.run.supervisor, os.WNOHANG)
        self._supervisor_ended(watched)

    def _supervisor_ended(self, watched: _Watched) -> None:
        handle = watched.handle
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
        if watched.record.is_attached:
            self._in_background(self._end_attached(watched))
            return
        if handle is not None:
            watched.handle = None  # its number may be somebody else's by now
            supervisors.reaped(handle)
            os.close(handle)
        self._in_background(self._end_supervised(watched))

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _end_attached(self, watched: _Watched) -> None:
        """Ends what an attached process left behind, as for a container, and tells how it ended."""
        assert watched.handle is not None, "attached processes keep theirs"
        try:
            await self._kill_all_of(watched.record, watched.run)
            ended = attached.exit_of(await callers.wait_status(watched.handle))
            await self._files.run(watched.directory.save_exit, ended)
        except PeerError as error:
            self.faults.append(str(error))
        await self._tell(watched)

    async def _end_supervised(self, watched: _Watched) -> None:
        try:
            if await self._files.run(found_runs.exit_of, watched.directory) is None:
                # It was killed. Its container must not go on without anyone to tell how it ends.
                await self._kill_all_of(watched.record, watched.run)
        except PeerError as error:
            self.faults.append(str(error))
        await self._tell(watched)

    async def _kill_all_of(self, record: Record, run: Run) -> None:
        await ending.kill_run(self._looks, self.cgroups, record, run)

    async def _kill_group(self, group: str) -> None:
        await ending.kill_group(self._looks, self.cgroups, group)

    async def _tell(self, watched: _Watched) -> None:
        record = watched.record
        exited = await self._files.run(self._exited, watched.directory, record)
        await self._files.run(self._remove_groups_or_leave, record)
        del self._watched[record.pod_uid, record.container]
        if watched.handle is not None:
            os.close(watched.handle)
        watched.ended.set_result(exited)
        if watched.is_told:
            self._exits.put_nowait(exited)

    def _exited(self, directory: RunDirectory, record: Record) -> Exited:
        group = container_group(record.qos, record.pod_uid, record.container)
        kills = self.cgroups.oom_kills(group) if self.cgroups is not None else 0
        return found_runs.exited(directory, record, oom_killed=kills > 0)

    def _remove_groups_or_leave(self, record: Record) -> None:
        """An ended container needs no group; what cannot go yet does so with the pod."""
        with suppress(PeerError):
            self._remove_groups(record.qos, record.pod_uid, record.container)

    async def exits(self) -> AsyncIterator[Exited]:
        """The end of every container that was Running, as it happens. For one reader."""
        while True:
            yield await self._exits.get()

    # Stopping.

    async def stop(self, uid: str, name: str, grace_seconds: float) -> Exited | None:
        """Asks a container to end, then ends it; None when it does not run.

        SIGTERM to its first process, and after the grace SIGKILL to all. ``exits`` tells it too.
        """
        watched = self._watched.get((uid, name))
        if watched is None:
            return None
        if grace_seconds > 0:
            supervisors.send(watched.run, signal.SIGTERM)
            with suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(watched.ended), grace_seconds)
        await self._kill_all_of(watched.record, watched.run)
        # One that somebody has stopped can still tell how its container ended.
        supervisors.send(watched.run, signal.SIGCONT)
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(watched.ended), SUPERVISOR_SECONDS_MAX)
        supervisors.send(watched.run, signal.SIGKILL)
        try:
            return await asyncio.wait_for(asyncio.shield(watched.ended), KILL_SECONDS_MAX)
        except TimeoutError:
            raise PeerError(
                f"container {name} of pod {uid}: its supervisor {watched.run.supervisor} has not "
                f"ended {KILL_SECONDS_MAX:g} s after its processes were killed.",
                retry=True,
            ) from None

    # CpusetPlacement.

    def pin(self, uid: str, name: str, cpus: CpuSet, mems: NodeSet | None = None) -> None:
        """Moves a running container; reads back, and PeerError when the kernel refuses."""
        self.pin_all({(uid, name): CpusetPlacement(cpus, mems)})

    def pin_all(self, placements: Mapping[tuple[str, str], CpusetPlacement]) -> None:
        """Moves many containers at once. All are tried; PeerError names every refusal."""
        watched = {key: self._running_one(*key) for key in placements}
        if self.cgroups is not None and self.cgroups.has_cpuset:
            self.cgroups.place(
                {container_group(w.record.qos, *key): placements[key] for key, w in watched.items()}
            )
            return
        self._pin_by_affinities([(one, placements[key]) for key, one in watched.items()])

    async def move(self, placements: Mapping[tuple[str, str], CpusetPlacement]) -> None:
        """As ``pin_all``, beside the loop; those that neither run nor start are passed over."""
        self._moves += 1
        lives: list[tuple[_Watched, CpusetPlacement]] = []
        groups: dict[str, CpusetPlacement] = {}
        for key, placement in placements.items():
            if (watched := self._watched.get(key)) is not None:
                lives.append((watched, placement))
                groups[container_group(watched.record.qos, *key)] = placement
            elif (starting := self._starting.get(key)) is not None:
                starting.wanted = placement
                if starting.placed is not None:
                    starting.placed = placement
                    groups[starting.group] = placement
        if self.cgroups is not None and self.cgroups.has_cpuset:
            await self._places.run(self.cgroups.place, groups)
        else:
            await self._places.run(self._pin_by_affinities, lives)

    def _pin_by_affinities(self, lives: list[tuple[_Watched, CpusetPlacement]]) -> None:
        families = proc_table.families()
        refusals = []
        for watched, placement in lives:
            try:
                self._pin_by_affinity(watched, placement, families)
            except PeerError as error:
                refusals.append(str(error))
        if refusals:
            raise PeerError("\n".join(refusals))

    def _pin_by_affinity(
        self, watched: _Watched, placement: CpusetPlacement, families: proc_table.Families
    ) -> None:
        record = watched.record
        if placement.mems is not None and str(placement.mems) != record.mems:
            raise PeerError(
                f"container {record.container} of pod {record.pod_uid}: its memory is bound to "
                f"NUMA nodes {record.mems or 'of any kind'}, and without cgroups nobody else can "
                f"change that to {placement.mems}. Restart the container."
            )
        if placement.cpus is not None:
            proc_table.set_affinity(supervisors.family(families, watched.run), placement.cpus)

    async def pin_supervisors(self, cpus: CpuSet) -> None:
        """Keeps the supervisors on these CPUs, away from those that containers have alone."""
        if self.cgroups is not None:
            await self._places.run(self._place_supervisors, self.cgroups, cpus)

    @staticmethod
    def _place_supervisors(tree: CgroupTree, cpus: CpuSet) -> None:
        tree.make(_SUPERVISORS)  # somebody may have removed it
        tree.place({_SUPERVISORS: CpusetPlacement(cpus)})

    async def limit_qos(self, qos: Qos, limits: Limits) -> None:
        """Writes the amounts of a QoS class; Guaranteed has no group of its own."""
        if self.cgroups is not None and qos_group(qos):
            await self._places.run(self._limit_qos, self.cgroups, qos_group(qos), limits)

    @staticmethod
    def _limit_qos(tree: CgroupTree, group: str, limits: Limits) -> None:
        tree.make(group)
        tree.limit(group, limits)

    def _running_one(self, uid: str, name: str) -> _Watched:
        watched = self._watched.get((uid, name))
        if watched is None:
            raise PeerError(f"container {name} of pod {uid} does not run")
        return watched

    def _pids(self, watched: _Watched) -> set[int]:
        if self.cgroups is not None:
            record = watched.record
            return self.cgroups.pids(container_group(record.qos, record.pod_uid, record.container))
        return supervisors.family(proc_table.families(), watched.run)

    def observed(self, uid: str, name: str) -> Observed:
        """What the kernel says about a running container now."""
        watched = self._running_one(uid, name)
        pids = self._pids(watched)
        cpus, mems = CpuSet(), NodeSet()
        for pid in pids:
            if found := proc_table.allowed(pid):
                bound = proc_table.bound_memory(pid) if self._by_affinity else None
                cpus, mems = cpus | found[0], mems | (bound or found[1])
        return Observed(frozenset(pids), cpus, mems)

    async def run_inside(
        self, uid: str, name: str, argv: Sequence[str], seconds_max: float
    ) -> tuple[int, str]:
        """Runs a command in a container that runs; its exit code and what it wrote."""
        watched = self._running_one(uid, name)
        place, child = watched.directory.path, watched.run.child
        return await run_inside(self._shim, place, child, argv, seconds_max)

    def running(self) -> frozenset[tuple[str, str]]:
        """The pod uid and name of every container that runs."""
        return frozenset(self._watched)

    def uids(self) -> set[str]:
        """The pods of which there is a record, running or ended."""
        return {record.pod_uid for _, record in readable_runs(self._runs)[0]}

    def containers_of(self, uid: str) -> list[str]:
        """The containers of a pod that have a record, running or ended."""
        found = (record for _, record in readable_runs(self._runs)[0])
        return sorted({record.container for record in found if record.pod_uid == uid})

    # Drift.

    def drift(self, expected: Iterable[Expected]) -> list[Drift]:
        return process_drift.find_drift(self.cgroups, self._lives(), expected)

    def repair(self, expected: Iterable[Expected]) -> list[Drift]:
        """Puts right what has drifted, and gives what it found; PeerError if that fails."""
        lives, wanted = self._lives(), _by_key(expected)
        found = process_drift.find_drift(self.cgroups, lives, wanted.values())
        self._put_right(lives, wanted, found)
        return found

    async def repair_beside(self, expected: Iterable[Expected]) -> list[Drift]:
        """As ``repair``, beside the loop; what moves or ends meanwhile waits for the next look."""
        before, moves = dict(self._watched), self._moves
        lives, wanted = self._lives(), _by_key(expected)
        found = await self._looks.run(
            process_drift.find_drift, self.cgroups, lives, list(wanted.values())
        )
        if self._moves != moves:
            return []
        still = [
            drift
            for drift in found
            for key in [(drift.pod_uid, drift.container)]
            if self._watched.get(key) is before[key]
        ]
        await self._places.run(self._put_right, lives, wanted, still)
        return still

    def _put_right(
        self,
        lives: process_drift.Lives,
        wanted: Mapping[tuple[str, str], Expected],
        found: list[Drift],
    ) -> None:
        refusals = []
        for key in dict.fromkeys((d.pod_uid, d.container) for d in found):
            pids = {d.pid for d in found if (d.pod_uid, d.container) == key and d.pid is not None}
            try:
                process_drift.repair(self.cgroups, lives, wanted[key], pids)
            except PeerError as error:
                refusals.append(str(error))
        if refusals:
            raise PeerError("\n".join(refusals))

    def _lives(self) -> process_drift.Lives:
        return {key: (watched.record.qos, watched.run) for key, watched in self._watched.items()}

    # After a restart.

    async def adopt(self) -> list[Running | Exited]:
        """Finds everything again that was started before, running or ended meanwhile.

        A container whose record is damaged is not found: it is told in ``faults``, and what is
        left of it in our cgroups is ended, since nobody could look after it.
        """
        found: dict[tuple[str, str], Running | Exited] = {}
        for directory, record in run_directories(self._runs, self.faults):
            key = record.pod_uid, record.container
            if key in self._watched:
                continue
            earlier = found.pop(key, None)
            if earlier is not None:
                self._directory(earlier).remove()
            try:
                found[key] = await self._adopt_one(directory, record)
            except PeerError as error:
                self.faults.append(str(error))
        await self._swept(found.keys() | self._watched.keys())
        for pod in self._runs.iterdir():
            with suppress(OSError):  # not empty: something of it is known
                pod.rmdir()
        return list(found.values())

    async def _swept(self, known: Set[tuple[str, str]]) -> None:
        """Removes groups without a record, which we made just before we died."""
        tree = self.cgroups
        if tree is None:
            return
        for qos in Qos:
            pods = [name for name in tree.children(qos_group(qos)) if name.startswith("pod")]
            for uid in (name.removeprefix("pod") for name in pods):
                pod = pod_group(qos, uid)
                for name in (child.removeprefix("c-") for child in tree.children(pod)):
                    if (uid, name) not in known:
                        await self._kill_group(container_group(qos, uid, name))
                        tree.remove(container_group(qos, uid, name))
                if not tree.children(pod):
                    tree.remove(pod)

    async def _adopt_one(self, directory: RunDirectory, record: Record) -> Running | Exited:
        watched = await found_runs.supervised(directory)
        if watched is not None:
            run, handle = watched
            self._watch(directory, record, run, handle, is_told=True)
            return found_runs.running(record, run)
        if found_runs.exit_of(directory) is None and (ran := directory.run):
            await self._kill_all_of(record, ran)
        exited = self._exited(directory, record)
        self._remove_groups_or_leave(record)
        return exited

    # Forgetting.

    async def forget(self, uid: str) -> None:
        """Forgets all containers of a pod of which nothing runs."""
        for name in await self._files.run(self.containers_of, uid):
            await self._files.run(self.remove, uid, name)
        await self.release(uid)

    async def release(self, uid: str) -> None:
        """Removes the groups of a pod that will not run again."""
        await self._files.run(self.remove_groups_of, uid)

    def remove(self, uid: str, name: str) -> None:
        """Forgets a container that has ended: its records and cgroups, but not its logs."""
        if (uid, name) in self._watched:
            raise PeerError(f"container {name} of pod {uid} still runs; stop it first")
        # A directory without a record may be one that is being made beside this.
        for directory, record in readable_runs(self._runs)[0]:
            if (record.pod_uid, record.container) == (uid, name):
                self._remove_groups(record.qos, uid, name)
                directory.remove()

    def remove_groups_of(self, uid: str) -> None:
        """Removes what is left of the groups of a pod of which nothing runs."""
        with self._making_groups:
            for qos in Qos:
                if self.cgroups is not None:
                    self.cgroups.remove(pod_group(qos, uid))

    def _remove_groups(self, qos: Qos, uid: str, name: str) -> None:
        if self.cgroups is None:
            return
        with self._making_groups:
            self.cgroups.remove(container_group(qos, uid, name))
            if not self.cgroups.children(pod_group(qos, uid)):
                self.cgroups.remove(pod_group(qos, uid))

    def close(self) -> None:
        """Lets go of all containers, which go on running."""
        loop = asyncio.get_running_loop()
        for task in self._ends:
            task.cancel()
        for threads in (self._files, self._places, self._looks):
            threads.close()
        for watched in self._watched.values():
            if watched.handle is not None:
                loop.remove_reader(watched.handle)
                os.close(watched.handle)
            watched.ended.cancel()
        if self.cgroups is not None and not self._watched:
            self.cgroups.remove_if_unused(_SUPERVISORS, *filter(None, map(qos_group, Qos)))
        self._watched.clear()


def _by_key(expected: Iterable[Expected]) -> dict[tuple[str, str], Expected]:
    return {(one.pod_uid, one.container): one for one in expected}
