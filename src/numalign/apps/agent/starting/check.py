"""Whether the agent would start with what is saved, and what would become of its pods.

The same steps as those of a start, but for the effects: nothing is written, ended or begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from numalign.adapters.cri import client as cri_client
from numalign.adapters.cri import runtime as cri_runtime
from numalign.adapters.local.manifests import Changes, ManifestDirectory
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.processes import found as found_processes
from numalign.apps.agent import events, run, saved
from numalign.apps.agent.config import AgentConfig
from numalign.apps.agent.model import AgentPod, AgentState, Phase
from numalign.apps.agent.runtimes.containers import owner_of
from numalign.apps.agent.starting import takeover
from numalign.apps.agent.starting.differences import Difference, differences
from numalign.apps.agent.starting.takeover import Runs
from numalign.apps.agent.step import step
from numalign.apps.agent.watching.manifests import manifest_events, remembered
from numalign.core.errors import ConfigError, CorruptCheckpointError, NumalignError, StartError
from numalign.core.machine.machine import Machine
from numalign.core.settings import Settings
from numalign.wire.kubelet.host_settings import default_config, host_settings

PROCESS: Final = "process"
CRI: Final = "cri"
NONE: Final = "none"


class Outcome(StrEnum):
    """What becomes of a pod."""

    KEPT = "kept"
    ADMITTED = "admitted"  # one whose manifest is new
    WAITS = "waits"  # for its device plugins
    REFUSED = "refused"
    ENDED = "ended"  # its containers have, while no agent was there
    ENDS = "ends"  # its manifest is gone, or it was being deleted
    FREED = "freed"  # only the kubelet's files know it


@dataclass(frozen=True, slots=True)
class PodOutlook:
    name: str  # namespace/name, or the uid where that is all that is known
    outcome: Outcome
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StartCheck:
    error: str = ""  # why it would not start
    differences: tuple[Difference, ...] = ()
    pods: tuple[PodOutlook, ...] = ()
    runtime: str = PROCESS  # the one that was looked at

    def count(self, outcome: Outcome) -> int:
        return sum(pod.outcome is outcome for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Asked:
    """With what the agent would be started."""

    directory: Path
    config: AgentConfig
    machine: Machine
    runtime: str | None = None  # None: the one that the saved pods ran in
    cri_socket: Path | None = None
    manifests: ManifestDirectory | None = None


async def check_start(asked: Asked, now: float) -> StartCheck:
    """What a start would do; ConfigError for what is no configuration at all."""
    files = StateDirectory(asked.directory)
    runtime = asked.runtime or last_runtime(files)
    found = compared(asked)
    try:
        setup, _ = run.setup_of(asked.config, asked.machine)
        # Where ConfigMaps and Secrets would come from is not asked here.
        setup = run.with_runtime(setup, runtime, has_objects=True)
    except StartError as error:
        return StartCheck(str(error), found, runtime=runtime)
    try:
        runs = await _runs(asked, runtime)
        taken = takeover.take_up(setup, files, runs, now)
    except ConfigError:
        raise
    except NumalignError as error:
        return StartCheck(str(error), found, runtime=runtime)
    state = taken.state
    changes = None if asked.manifests is None else _first_look(asked.manifests, state)
    if not state.halted:
        first = [] if changes is None else manifest_events(changes, now)
        state, _ = step(setup, state, *first, events.SourcesReady(now))
    pods = tuple(_outlooks(taken.before, state, changes))
    return StartCheck(state.halted, found, pods, runtime)


def compared(asked: Asked) -> tuple[Difference, ...]:
    """Where the saved state and the host differ, as far as that can be said."""
    saved_files = takeover.contents(StateDirectory(asked.directory))
    try:
        host = run.setup_of(asked.config, asked.machine)[0].host
    except StartError:
        host = None
    return differences(saved_files, _settings(asked), host)


def _first_look(manifests: ManifestDirectory, state: AgentState) -> Changes:
    manifests.remember(remembered(state.pods))
    return manifests.changes()


def _settings(asked: Asked) -> Settings:
    kubelet = asked.config.kubelet or default_config(asked.machine)
    return host_settings(
        kubelet, asked.machine, version=asked.config.version, fidelity=asked.config.fidelity
    )


async def _runs(asked: Asked, runtime: str) -> Runs | None:
    if runtime == NONE:
        return None
    if runtime == PROCESS:
        return takeover.runs_of(await found_processes.runs(asked.directory))
    client, _ = await cri_client.connected(asked.cri_socket)
    try:
        found = await cri_runtime.found_runs(client, owner_of(asked.directory))
    finally:
        await client.close()
    return takeover.runs_of(found)


def last_runtime(files: StateDirectory) -> str:
    """What ran the containers that are noted as running."""
    data = files.read(saved.FILE_NAME)
    try:
        pods = {} if data is None else saved.load(data)
    except CorruptCheckpointError:
        return PROCESS  # no start would come as far as to ask
    alive = [pod.containers[name] for pod in pods.values() for name in pod.alive()]
    if any(status.id for status in alive):
        return CRI
    # Where nothing is run, containers have no process number but 0.
    return NONE if any(status.pid == 0 for status in alive) else PROCESS


def _outlooks(
    before: takeover.SavedState, after: AgentState, changes: Changes | None
) -> Iterator[PodOutlook]:
    for uid, pod in after.pods.items():
        known = before.pods.get(uid)
        if known is None or not known.is_terminal:
            yield _outlook(pod, is_new=known is None)
    for uid, pod in before.pods.items():
        if uid not in after.pods and not pod.is_terminal:
            yield PodOutlook(_name(pod), Outcome.ENDS)
    new = set() if changes is None else {manifest.uid for manifest in changes.new}
    for uid in sorted(_holders(before) - before.pods.keys() - new):
        yield PodOutlook(uid, Outcome.FREED)


def _outlook(pod: AgentPod, *, is_new: bool) -> PodOutlook:
    if pod.phase is Phase.FAILED and pod.reason:
        return PodOutlook(_name(pod), Outcome.REFUSED, pod.reason, pod.message)
    if pod.waits_for_plugin:
        return PodOutlook(_name(pod), Outcome.WAITS, pod.reason, pod.message)
    if pod.deleting:
        return PodOutlook(_name(pod), Outcome.ENDS)
    if pod.is_terminal:
        return PodOutlook(_name(pod), Outcome.ENDED)
    return PodOutlook(_name(pod), Outcome.ADMITTED if is_new else Outcome.KEPT)


def _name(pod: AgentPod) -> str:
    return f"{pod.pod.namespace}/{pod.pod.name}"


def _holders(before: takeover.SavedState) -> set[str]:
    held: list[Mapping[str, object]] = []
    if before.cpu is not None:
        held += [before.cpu.entries, before.cpu.pod_sets]
    if before.memory is not None:
        held += [before.memory.entries, before.memory.pod_blocks]
    if before.devices is not None:
        held.append(before.devices.entries)
    return {uid for entries in held for uid in entries}
