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
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.adapters.cgroups.tree import (
    CgroupTree,
    CpusetPlacement,
    container_group,
    pod_group,
    qos_group,
)
from numalign.adapters.local import descriptors
from numalign.adapters.processes import attached, callers, proc_table, supervisors
from numalign.adapters.processes import drift as process_drift
from numalign.adapters.processes import found as found_runs
from numalign.adapters.processes.found import START_SECONDS_MAX
from numalign.adapters.processes.inside import run_inside
from numalign.adapters.processes.records import (
    Record,
    Run,
    RunDirectory,
    RunSpec,
    run_directories,
    spec_items,
)
from numalign.adapters.processes.values import Drift, DriftKind, Exited, Expected, Observed, Running
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

KILL_SECONDS_MAX: Final = 30.0
LOOK_SECONDS: Final = 1.0
_SUPERVISORS: Final = "supervisors"

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
class _Watched:
    """A run whose supervisor lives, as far as we have heard."""

    directory: RunDirectory
    record: Record
    run: Run
    handle: int | None  # pidfd of the supervisor; None where descriptors are short
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
        self._exits: asyncio.Queue[Exited] = asyncio.Queue()
        self._orphan_kills: set[asyncio.Task[None]] = set()
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

    async def start(self, spec: RunSpec) -> Running | Exited:
        """Starts a container; Exited when its command could not be run (not told again)."""
        key = spec.pod_uid, spec.container
        group = container_group(spec.qos, *key)
        if key in self._watched:
            raise PeerError(f"container {spec.container} of pod {spec.pod_uid} runs already")
        directory = self._directory(spec)
        if directory.path.exists():
            raise PeerError(f"{directory.path}: this attempt was made before; count it up")
        joins, own = await self._make_groups(spec, group)
        items = spec_items(spec, joins, own, by_affinity=self._by_affinity)
        try:
            lock = directory.create(spec, items)
            pid, report = supervisors.spawned(self._shim, directory, lock)
        except PeerError:
            self._remove_run(directory, spec)
            raise
        return await self._wait_for_start(directory, spec, pid, report)

    async def attach(self, spec: RunSpec, pid: int, start: int, boot: str) -> Running:
        """Puts a process that somebody else started in a container's place, and looks after it."""
        handle = callers.handle_of(pid, start, boot)
        if handle is None:
            raise PeerError(f"process {pid} that was to become the command has ended")
        directory = self._directory(spec)
        run = Run(pid, start, pid, start, time.time_ns())
        record: Record | None = None
        try:
            record = directory.create_attached(spec, run, boot)
            attached.place(self.cgroups, spec, pid)
        except PeerError:
            os.close(handle)
            if record is not None:
                with suppress(PeerError):  # the process may be in it until it ends
                    self._remove_run(directory, spec)
            raise
        self._watch(directory, record, run, handle, is_told=True)
        return found_runs.running(record, run)

    def _remove_run(self, directory: RunDirectory, spec: RunSpec) -> None:
        directory.remove()
        self._remove_groups(spec.qos, spec.pod_uid, spec.container)

    def _directory(self, one: RunSpec | Running | Exited) -> RunDirectory:
        return RunDirectory(self._runs / one.pod_uid / f"{one.container}.{one.attempt}")

    async def _make_groups(self, spec: RunSpec, group: str) -> tuple[list[Path], list[Path]]:
        """Makes the groups of a run and gives the files by which to join them."""
        tree = self.cgroups
        if tree is None:
            return [], []
        # A fresh group for each attempt: nothing of the last one is in it or counted in it.
        await self._kill_group(group)
        tree.remove(group)
        tree.make(group)
        try:
            if spec.pod_limits is not None:
                tree.limit(pod_group(spec.qos, spec.pod_uid), spec.pod_limits)
            tree.limit(group, spec.limits)
            tree.place({group: CpusetPlacement(spec.cpus, spec.mems)})
        except PeerError:
            self._remove_groups(spec.qos, spec.pod_uid, spec.container)
            raise
        return tree.joins(group), tree.joins(_SUPERVISORS)

    async def _wait_for_start(
        self, directory: RunDirectory, spec: RunSpec, pid: int, report: int
    ) -> Running | Exited:
        try:
            handle = os.pidfd_open(pid)  # our own child, so the number is still its
        except OSError as error:
            os.close(report)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            await self._kill_group(container_group(spec.qos, spec.pod_uid, spec.container))
            self._remove_run(directory, spec)
            raise PeerError(f"container {spec.container}: {error.strerror}", retry=True) from error
        try:
            text = await asyncio.wait_for(supervisors.first_words(report), START_SECONDS_MAX)
        except TimeoutError:
            text = ""
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(report)
        record, run = directory.record, directory.run
        if not text or record is None or run is None:
            await asyncio.wait_for(supervisors.readable(handle), KILL_SECONDS_MAX)
            supervisors.reaped(handle)
            os.close(handle)
            said = directory.complaint or f"no word within {START_SECONDS_MAX:g} s"
            await self._kill_group(container_group(spec.qos, spec.pod_uid, spec.container))
            self._remove_run(directory, spec)
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
        if watched.handle is not None:
            asyncio.get_running_loop().remove_reader(watched.handle)
        if watched.record.is_attached:
            self._in_background(self._end_attached(watched))
            return
        if watched.handle is not None:
            supervisors.reaped(watched.handle)
            os.close(watched.handle)
        if found_runs.exit_of(watched.directory) is None:
            # It was killed. Its container must not go on without anyone to tell how it ends.
            self._in_background(self._kill_orphans(watched))
        else:
            self._tell(watched)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._orphan_kills.add(task)
        task.add_done_callback(self._orphan_kills.discard)

    async def _end_attached(self, watched: _Watched) -> None:
        """Ends what an attached process left behind, as for a container, and tells how it ended."""
        assert watched.handle is not None, "attached processes keep theirs"
        try:
            await self._kill_family(watched.record, watched.run)
            ended = attached.exit_of(await callers.wait_status(watched.handle))
            watched.directory.save_exit(ended)
        finally:
            os.close(watched.handle)
            self._tell(watched)

    async def _kill_orphans(self, watched: _Watched) -> None:
        try:
            await self._kill_family(watched.record, watched.run)
        finally:
            self._tell(watched)

    def _tell(self, watched: _Watched) -> None:
        record = watched.record
        exited = self._exited(watched.directory, record)
        del self._watched[record.pod_uid, record.container]
        watched.ended.set_result(exited)
        if watched.is_told:
            self._exits.put_nowait(exited)

    def _exited(self, directory: RunDirectory, record: Record) -> Exited:
        group = container_group(record.qos, record.pod_uid, record.container)
        kills = self.cgroups.oom_kills(group) if self.cgroups is not None else 0
        return found_runs.exited(directory, record, oom_killed=kills > 0)

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
            supervisors.ask_to_end(watched.run)
            with suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(watched.ended), grace_seconds)
        await self._kill_family(watched.record, watched.run)
        try:
            return await asyncio.wait_for(asyncio.shield(watched.ended), KILL_SECONDS_MAX)
        except TimeoutError:
            raise PeerError(
                f"container {name} of pod {uid}: its supervisor {watched.run.supervisor} has not "
                f"ended {KILL_SECONDS_MAX:g} s after its processes were killed.",
                retry=True,
            ) from None

    async def _kill_family(self, record: Record, run: Run) -> None:
        if self.cgroups is not None:
            # One that is just being started has yet to join the group.
            supervisors.kill_child(run)
            await self._kill_group(container_group(record.qos, record.pod_uid, record.container))
            return
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while pids := self._family(record, run):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await supervisors.pause(deadline, f"processes {sorted(pids)}")

    def _family(self, record: Record, run: Run) -> set[int]:
        found = supervisors.family(proc_table.families(), run)
        return found | callers.marked(record.pod_uid) if record.is_attached else found

    async def _kill_group(self, group: str) -> None:
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while self.cgroups is not None and (pids := self.cgroups.kill(group)):
            await supervisors.pause(deadline, f"processes {sorted(pids)} in {group}")

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
        families = proc_table.families()
        refusals = []
        for key, one in watched.items():
            try:
                self._pin_by_affinity(one, placements[key], families)
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

    def pin_supervisors(self, cpus: CpuSet) -> None:
        """Keeps the supervisors on these CPUs, away from those that containers have alone."""
        if self.cgroups is not None:
            self.cgroups.place({_SUPERVISORS: CpusetPlacement(cpus)})

    def limit_qos(self, qos: Qos, limits: Limits) -> None:
        """Writes the amounts of a QoS class; Guaranteed has no group of its own."""
        if self.cgroups is not None and qos_group(qos):
            self.cgroups.make(qos_group(qos))
            self.cgroups.limit(qos_group(qos), limits)

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

    def containers_of(self, uid: str) -> list[str]:
        """The containers of a pod that have a record, running or ended."""
        found = (record for _, record in run_directories(self._runs))
        return sorted({record.container for record in found if record.pod_uid == uid})

    # Drift.

    def drift(self, expected: Iterable[Expected]) -> list[Drift]:
        return process_drift.find_drift(self.cgroups, self._lives(), expected)

    def repair(self, expected: Iterable[Expected]) -> list[Drift]:
        """Puts right what has drifted, and gives what it found; PeerError if that fails."""
        wanted = {(one.pod_uid, one.container): one for one in expected}
        lives = self._lives()
        found = process_drift.find_drift(self.cgroups, lives, wanted.values())
        for key in dict.fromkeys((d.pod_uid, d.container) for d in found):
            pids = {d.pid for d in found if (d.pod_uid, d.container) == key and d.pid is not None}
            process_drift.repair(self.cgroups, lives, wanted[key], pids)
        return found

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
            await self._kill_family(record, ran)
        return self._exited(directory, record)

    # Forgetting.

    def remove(self, uid: str, name: str) -> None:
        """Forgets a container that has ended: its records and cgroups, but not its logs."""
        if (uid, name) in self._watched:
            raise PeerError(f"container {name} of pod {uid} still runs; stop it first")
        for directory, record in list(run_directories(self._runs)):
            if (record.pod_uid, record.container) == (uid, name):
                self._remove_groups(record.qos, uid, name)
                directory.remove()

    def _remove_groups(self, qos: Qos, uid: str, name: str) -> None:
        if self.cgroups is None:
            return
        self.cgroups.remove(container_group(qos, uid, name))
        if not self.cgroups.children(pod_group(qos, uid)):
            self.cgroups.remove(pod_group(qos, uid))

    def close(self) -> None:
        """Lets go of all containers, which go on running."""
        loop = asyncio.get_running_loop()
        for watched in self._watched.values():
            if watched.handle is not None:
                loop.remove_reader(watched.handle)
                os.close(watched.handle)
            watched.ended.cancel()
        if self.cgroups is not None and not self._watched:
            self.cgroups.remove_if_unused(_SUPERVISORS, *filter(None, map(qos_group, Qos)))
        self._watched.clear()
