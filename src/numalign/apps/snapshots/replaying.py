"""A captured host started again: are its files sound, would the kubelet start, who is refused?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numalign.apps.snapshots import running
from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.apps.snapshots.loading import pods_max, settings_of
from numalign.core.errors import StartError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet import state_checks
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.start_advice import with_advice
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.pod import Pod
from numalign.wire.bundle import STATE_FILES
from numalign.wire.checkpoints import state_files
from numalign.wire.checkpoints.state_files import StateFiles


@dataclass(frozen=True, slots=True)
class FileReport:
    """One state file: how it is, and what in it cannot be."""

    name: str
    bytes: int | None  # None: there is none
    fault: str | None = None  # why the kubelet does not take it up
    breaches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A running pod that would be refused when the kubelet starts again."""

    pod: str
    reason: str
    message: str
    is_assumed: bool = False  # its requests were taken from what it holds


@dataclass(frozen=True, slots=True)
class Replay:
    source: str
    files: tuple[FileReport, ...]
    start_fault: str | None = None  # why the kubelet would not start
    kept: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the kubelet would start, keep every pod, and every file is as it must be."""
        wrong = any(file.fault or file.breaches for file in self.files)
        return not (wrong or self.start_fault or self.refused)


def replayed(inputs: SnapshotInputs, *, is_critical: bool = False) -> Replay:
    """The host as its kubelet would take it up with this configuration."""
    settings = settings_of(inputs)[1]
    info = machine_info(inputs.machine)
    try:
        host = hosts.build(settings, info)
    except StartError as error:
        unread = tuple(_unchecked(inputs, name) for name in STATE_FILES)
        return Replay(inputs.source, unread, _words(error), notes=inputs.notes)
    files, reports = _files(inputs, host)
    fatal = [report.fault for report in reports[:2] if report.fault]  # devices start empty then
    if fatal:
        return Replay(inputs.source, reports, fatal[0], notes=inputs.notes)
    found = running.pods_of(inputs, host, files.cpu, files.memory, files.devices)
    try:
        state = hosts.start(
            host,
            cpu=files.cpu,
            memory=files.memory,
            saved_devices=files.devices,
            running=frozenset((p.uid, c.name) for p in found.pods.values() for c in p.in_order),
        )
    except StartError as error:
        return Replay(inputs.source, reports, _words(error), notes=inputs.notes)
    totals = node_fit.allocatable(settings, info, pods_max=pods_max(inputs))
    kept, refused = _again(host, state, totals, found, is_critical=is_critical)
    notes = (*inputs.notes, *found.notes)
    return Replay(inputs.source, reports, None, kept, refused, notes)


def _words(error: StartError) -> str:
    return f"{error.phase}: {error.text}"


def _unchecked(inputs: SnapshotInputs, name: str) -> FileReport:
    data = inputs.state.get(name)
    return FileReport(name, None if data is None else len(data))


def _files(inputs: SnapshotInputs, host: Host) -> tuple[StateFiles, tuple[FileReport, ...]]:
    found = state_files.decoded(inputs.state, host.settings)
    breaches: Mapping[str, Iterable[str]] = {
        state_files.CPU: () if found.cpu is None else state_checks.cpu_breaches(host, found.cpu),
        state_files.MEMORY: ()
        if found.memory is None
        else state_checks.memory_breaches(host, found.memory),
        state_files.DEVICES: ()
        if found.devices is None
        else state_checks.device_breaches(found.devices),
    }
    reports = (
        replace(
            _unchecked(inputs, name),
            fault=str(found.faults[name]) if name in found.faults else None,
            breaches=tuple(breaches[name]),
        )
        for name in STATE_FILES
    )
    return found, tuple(reports)


def _again(
    host: Host,
    state: HostState,
    totals: node_fit.Totals,
    found: running.Running,
    *,
    is_critical: bool,
) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    """Every running pod admitted once more, in turn, before device plugins are back.

    What ran before is active while the others are asked, but only those that are in again count
    for the totals.
    """
    held = dict(found.pods)
    again: list[Pod] = []
    kept: list[str] = []
    refused: list[Refused] = []
    for uid, pod in found.pods.items():
        state = replace(state, pods={**held, **state.pods})
        state, verdict = verdict_on(host, state, totals, pod, is_critical=is_critical, others=again)
        words = refusal(verdict)
        name = found.names.get(uid, uid)
        if words is None:
            again.append(pod)
            kept.append(name)
        else:
            held.pop(uid)
            refused.append(Refused(name, *words, uid in found.unknown))
    return tuple(kept), tuple(refused)


def as_data(replay: Replay) -> dict[str, Any]:
    """The replay as plain values, ready for JSON."""
    return {
        "source": replay.source,
        "sound": replay.is_sound,
        "files": [
            {"name": f.name, "bytes": f.bytes, "fault": f.fault, "breaches": list(f.breaches)}
            for f in replay.files
        ],
        "starts": replay.start_fault is None,
        "startFault": replay.start_fault,
        "kept": list(replay.kept),
        "refused": [
            {"pod": r.pod, "reason": r.reason, "message": r.message, "assumed": r.is_assumed}
            for r in replay.refused
        ],
        "notes": list(replay.notes),
    }


def as_lines(replay: Replay) -> Iterator[str]:
    """The replay as text, one fact per line."""
    for file in replay.files:
        if file.bytes is None:
            yield f"{file.name}: there is none; the kubelet starts as on an empty host"
        elif file.fault:
            yield f"{file.name}: {file.fault}"
        elif not file.breaches:
            yield f"{file.name}: sound"
        for breach in file.breaches:
            yield f"{file.name}: {breach}"
    if replay.start_fault is not None:
        yield f"the kubelet would not start: {with_advice(replay.start_fault)}"
        return
    for refused in replay.refused:
        assumed = " (its requests are assumed from what it holds)" if refused.is_assumed else ""
        yield f"{refused.pod} would be refused: {refused.reason}: {refused.message}{assumed}"
    yield (
        f"the kubelet would start; {len(replay.kept)} pods are kept, {len(replay.refused)} refused"
    )
