"""Taking up the saved state: the one way for the agent's start and for ``numalign state check``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.processes.values import Exited, Running
from numalign.apps.agent import events, saved
from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState, DeviceKey, Refusal
from numalign.apps.agent.runtimes.decide_only import DecideOnly
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.starting.differences import differences
from numalign.apps.agent.steps.recovery import Ended, Key, holds, recovered
from numalign.core.errors import CorruptCheckpointError, PeerError, WireError
from numalign.core.kubelet.devices.devices import Held, SavedDevices
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.kubelet.state import CpuState, MemoryState
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import state_files
from numalign.wire.grpc import device_plugin

log = structlog.get_logger("numalign.agent")


@dataclass(frozen=True, slots=True)
class Runs:
    """What the runtime still runs (with process numbers), and how the others ended."""

    alive: Mapping[Key, int] = field(default_factory=dict)
    ended: Mapping[Key, Ended] = field(default_factory=dict)


def runs_of(found: Iterable[Running | Exited]) -> Runs:
    alive: dict[Key, int] = {}
    ended: dict[Key, Ended] = {}
    for one in found:
        key = one.pod_uid, one.container
        if isinstance(one, Running):
            alive[key] = one.pid
        else:
            has_run = one.started_ns is not None
            ended[key] = Ended(one.attempt, one.code, one.message, has_run)
    return Runs(alive, ended)


@dataclass(frozen=True, slots=True)
class SavedState:
    """What the state files say."""

    cpu: CpuState | None
    memory: MemoryState | None
    devices: SavedDevices | None
    pods: Mapping[str, AgentPod]
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    aside: bytes | None = None  # what there is of pods that cannot be taken up


@dataclass(frozen=True, slots=True)
class TakenUp:
    """The agent after a start, what it has to do first, and what it started from."""

    before: SavedState
    state: AgentState
    effects: list[events.Effect]
    changed: tuple[str, ...] = ()  # how the machine is another one than at the last start
    is_afresh: bool = False  # nothing of the managers' state was taken up

    def notes(self) -> tuple[str, ...]:
        """What the operator should know of it."""
        if not self.is_afresh:
            return (*self.before.notes, *self.changed)
        why = "the machine is not as it was, and no pod holds anything, so it starts afresh"
        return (*self.before.notes, f"{why}: {'; '.join(self.changed)}")


def take_up(setup: AgentSetup, files: StateDirectory, runs: Runs | None, now: float) -> TakenUp:
    """The agent as it starts; StartError or CorruptCheckpointError where it would not.

    Without a runtime (None) everything that ran before still does.
    """
    found = read_state(files, setup)
    if runs is None:
        runs = Runs(DecideOnly.adopted(found.pods))
    changed = tuple(d.text for d in differences(contents(files), setup.host.settings, setup.host))
    is_afresh = bool(changed) and setup.host.is_safe and not _holds_anything(found, runs)
    state, effects = recovered(
        setup,
        cpu=None if is_afresh else found.cpu,
        memory=None if is_afresh else found.memory,
        saved_devices=found.devices,
        pods=found.pods,
        alive=runs.alive,
        ended=runs.ended,
        now=now,
    )
    state = replace(state, refusals=found.refusals)
    # What is saved first is the state from then on: it must know them too.
    effects = [
        replace(one, state=replace(one.state, refusals=found.refusals))
        if isinstance(one, events.Save)
        else one
        for one in effects
    ]
    return TakenUp(found, state, effects, changed, is_afresh)


def _holds_anything(found: SavedState, runs: Runs) -> bool:
    """Whether some pod may have CPUs, memory or devices by what was saved, or still runs."""
    cpu, memory, devices = found.cpu, found.memory, found.devices
    return bool(
        runs.alive
        or (cpu is not None and (cpu.entries or cpu.pod_sets))
        or (memory is not None and (memory.entries or memory.pod_blocks))
        or (devices is not None and devices.entries)
        or any(holds(pod) for pod in found.pods.values())
    )


def read_state(files: StateDirectory, setup: AgentSetup) -> SavedState:
    """What the state files say; CorruptCheckpointError with the kubelet's words if they are bad."""
    root = files.root
    taken = state_files.decoded(contents(files), setup.host.settings, root=f"{root}/")
    fault = taken.faults.get(state_files.DEVICES)
    if fault is not None and len(taken.faults) == 1:
        # The kubelet would start without it, and then refuse the pods that hold devices.
        raise CorruptCheckpointError(f"{root / device_checkpoint.PLACE}: {fault}") from fault
    taken.checked()
    data = files.read(saved.FILE_NAME)
    pods = {} if data is None else saved.load(data, path=str(root / saved.FILE_NAME))
    for uid, containers in taken.devices.entries.items() if taken.devices is not None else ():
        if uid in pods:
            pods[uid] = replace(pods[uid], allocations=_answers(containers))
    kept, notes = _refusals(files, pods)
    aside = None if data is None else saved.unusable(data)
    return SavedState(taken.cpu, taken.memory, taken.devices, pods, kept, notes, aside)


def _refusals(
    files: StateDirectory, pods: Mapping[str, AgentPod]
) -> tuple[dict[str, Refusal], tuple[str, ...]]:
    """Why pods were refused, and what to say if that cannot be read: the agent starts anyway."""
    try:
        data = files.read(refusals.FILE_NAME)
        path = str(files.root / refusals.FILE_NAME)
        return {} if data is None else refusals.load(data, pods, path=path), ()
    except (WireError, PeerError) as error:
        return {}, (str(error),)


def keep_aside(files: StateDirectory, found: SavedState) -> None:
    """Writes what cannot be taken up beside the rest, for whoever finds out why."""
    if found.aside is not None:
        files.write(saved.ASIDE_NAME, found.aside)


def contents(files: StateDirectory) -> dict[str, bytes]:
    """The kubelet's state files by name, those that are there."""
    data = {name: files.read(place) for name, place in state_files.PLACES.items()}
    return {name: content for name, content in data.items() if content is not None}


def _answers(containers: Mapping[str, Mapping[str, Held]]) -> dict[DeviceKey, Allocation]:
    """What plugins answered for the containers of a pod before the restart."""
    answers = {}
    for container, resources in containers.items():
        for resource, held in resources.items():
            try:
                answers[container, resource] = device_plugin.saved_allocation_of(held.response)
            except WireError as error:
                log.warning("saved_answer_unusable", resource=resource, error=str(error))
    return answers
