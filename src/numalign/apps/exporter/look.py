"""The stages of one look: Node object, host, unknown pods, then the published object.

After a failure the look is over and another one begins later, with the same checks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import msgspec

from numalign.apps.exporter.events import (
    AskForPods,
    CheckObject,
    CountPublish,
    CountScan,
    Effect,
    LookUpHost,
    ReportFailure,
    ReportSuccess,
    ScanHost,
    ShowObject,
    WriteObject,
)
from numalign.apps.exporter.model import SCAN_STAGES, ExporterState, Look, Setup, Stage, Written
from numalign.core.cluster.publish.export import HostReport, exported, unknown_pods
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import NumalignError, PeerError
from numalign.core.settings import Version
from numalign.wire.kubernetes import nrt

BACKOFF_SECONDS: Final = (0.5, 30.0)  # first and longest
VERSION_DEFAULT: Final = Version.V1_36


def begin(setup: Setup, state: ExporterState, now: float, effects: list[Effect]) -> ExporterState:
    """Looks now; what changes from here on is for the next look."""
    look = Look(Stage.LOOKING_UP, checks=state.checks_due)
    state = replace(state, look=look, is_due=False, checks_due=False, begins_at=None)
    if setup.writes and look.checks:
        effects.append(LookUpHost())
        return state
    return scan(setup, state, now, effects)


def scan(setup: Setup, state: ExporterState, now: float, effects: list[Effect]) -> ExporterState:
    """The host itself is next."""
    effects.append(ScanHost(setup.version or state.kubelet_version or VERSION_DEFAULT))
    return replace(state, look=replace(state.look, stage=Stage.SCANNING, scan_began=now))


def take_report(
    setup: Setup, state: ExporterState, report: HostReport, now: float, effects: list[Effect]
) -> ExporterState:
    """Asks for pods that the watch has not told of yet, or goes on without."""
    state = replace(state, look=replace(state.look, report=report))
    unknown = unknown_pods(_complete(setup, state, report))
    if unknown:
        effects.append(AskForPods(tuple(unknown)))
        return _enter(state, Stage.ASKING)
    return _publish(setup, state, report, now, effects)


def take_pods(
    setup: Setup, state: ExporterState, now: float, chance: float, effects: list[Effect]
) -> ExporterState:
    """Goes on if all pods are known now."""
    report = state.look.report
    assert report is not None, "pods are asked for after the host was looked at"
    unknown = unknown_pods(_complete(setup, state, report))
    if unknown:
        names = ", ".join("/".join(key) for key in unknown[:3])
        error = PeerError(
            f"the host lists pods that the API server does not know ({names}): nothing is "
            "published until it does, or they are gone",
            retry=True,
        )
        return fail(state, error, now, chance, effects)
    return _publish(setup, state, report, now, effects)


def take_check(
    state: ExporterState, version: str | None, now: float, effects: list[Effect]
) -> ExporterState:
    """What was written last still stands, or it is written again."""
    if state.written is not None and state.written.version == version:
        return _succeed(state, "unchanged", now, effects)
    return _write(state, effects)


def take_written(
    state: ExporterState, version: str, now: float, effects: list[Effect]
) -> ExporterState:
    written = Written(_content(state, _topology(state)), version)
    return _succeed(replace(state, written=written), "written", now, effects)


def fail(
    state: ExporterState, error: NumalignError, now: float, chance: float, effects: list[Effect]
) -> ExporterState:
    """Ends the look; the next one comes after a wait that grows with every failure in a row."""
    if state.look.stage in SCAN_STAGES:
        effects.append(CountScan("failed"))
    else:
        effects.append(CountPublish("failed"))
    first, longest = BACKOFF_SECONDS
    wait = min(longest, first * 2.0 ** min(state.failures, 30)) * (0.5 + 0.5 * chance)
    effects.append(ReportFailure(error, wait))
    return replace(
        state,
        look=Look(),
        is_due=True,
        checks_due=state.checks_due or state.look.checks,
        not_before=now + wait,
        failures=state.failures + 1,
        error=str(error),
    )


def _publish(
    setup: Setup, state: ExporterState, report: HostReport, now: float, effects: list[Effect]
) -> ExporterState:
    topology = exported(_complete(setup, state, report))
    state = replace(state, look=replace(state.look, topology=topology))
    effects.append(CountScan("ok", now - state.look.scan_began))
    if not setup.writes:
        effects.append(ShowObject(topology))
        return _succeed(state, None, now, effects)
    if state.written is None or state.written.content != _content(state, topology):
        return _write(state, effects)
    if not state.look.checks:
        return _succeed(state, "unchanged", now, effects)
    effects.append(CheckObject())  # others may write too
    return _enter(state, Stage.CHECKING)


def _write(state: ExporterState, effects: list[Effect]) -> ExporterState:
    effects.append(WriteObject(_topology(state), state.host_uid))
    # If it fails nobody knows what stands there.
    return _enter(replace(state, written=None), Stage.WRITING)


def _succeed(
    state: ExporterState,
    result: Literal["written", "unchanged"] | None,
    now: float,
    effects: list[Effect],
) -> ExporterState:
    if result is not None:
        effects.append(CountPublish(result))
    effects.append(ReportSuccess())
    return replace(state, look=Look(), failures=0, not_before=0.0, succeeded_at=now)


def _enter(state: ExporterState, stage: Stage) -> ExporterState:
    return replace(state, look=replace(state.look, stage=stage))


def _complete(setup: Setup, state: ExporterState, report: HostReport) -> HostReport:
    return replace(report, pods=state.pods if setup.follows_pods else None)


def _topology(state: ExporterState) -> HostTopology:
    found = state.look.topology
    assert found is not None, "nothing is written before it is known"
    return found


def _content(state: ExporterState, topology: HostTopology) -> bytes:
    return msgspec.json.encode(nrt.body(topology, nrt.host_reference(topology, state.host_uid)))
