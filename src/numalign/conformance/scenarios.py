"""Replays scenario and resize files: whole sequences of admissions on one host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from numalign.conformance import reading
from numalign.conformance.reading import Json
from numalign.core.errors import StartError, WireError
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import Operation, admit, placements
from numalign.core.kubelet.decisions import Admitted, Broken, Decision, Placement, Rejected
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.pod import Pod, qos_class
from numalign.core.settings import Version
from numalign.core.values.sets import bits, format_list
from numalign.wire.checkpoints import state_files

Outcome = list[tuple[Pod, Decision]]


class Replay:
    """One host that is driven by the steps of a scenario."""

    def __init__(self, scenario: Json, version: Version) -> None:
        self.settings = reading.settings(scenario["kubelet"], version)
        self.plugins = {
            name: reading.devices(items) for name, items in (scenario.get("devices") or {}).items()
        }
        self.preferring = frozenset(scenario.get("devices_preferred_allocation") or ())
        self.host: Host = host.build(self.settings, reading.machine(scenario["machine"]))
        self.state: HostState = self._registered(host.start(self.host))
        self.order: list[str] = []  # uids in the order of their first admission

    def _registered(self, state: HostState) -> HostState:
        found = state.devices
        for name in sorted(self.plugins):
            found = devices.with_reported(found, name, self._resource(name))
        return replace(state, devices=found)

    def _resource(self, name: str) -> devices.DeviceResource:
        return devices.device_resource(self.plugins[name], has_preferred=name in self.preferring)

    def admit(self, pod: Pod, operation: Operation = Operation.ADD) -> Decision:
        """Decides about a pod; one that is refused leaves nothing behind."""
        self.state, decision = admit(
            self.host,
            self.state,
            pod,
            operation=operation,
            preferred=prefer_lowest,
            past_defects=True,
        )
        if isinstance(decision, Rejected):
            self.state = host.cleaned(self.host, self.state)
        elif isinstance(decision, Admitted) and pod.uid not in self.order:
            self.order.append(pod.uid)
        return decision

    def remove(self, uid: str) -> None:
        """Ends a pod and frees what it held."""
        self.state = host.cleaned(self.host, host.ended(self.state, uid))

    def restart(self) -> Outcome:
        """Builds the managers anew on what was saved and admits every active pod again."""
        pods = [self.state.pods[uid] for uid in self.order if uid in self.state.pods]
        files = {name: text.encode() for name, text in self.files().items()}
        found = state_files.decoded(files, self.settings).checked()
        self.state = self._registered(
            host.start(self.host, cpu=found.cpu, memory=found.memory, saved_devices=found.devices)
        )
        # All of them are active while each is admitted again.
        self.state = replace(self.state, pods={pod.uid: pod for pod in pods})
        return [(pod, self.admit(pod)) for pod in pods]

    def files(self) -> dict[str, str]:
        """The state files as they are now, by name."""
        found = state_files.encoded(self.state, self.settings)
        return {name: data.decode() for name, data in found.items()}

    def set_health(self, change: Json) -> None:
        """Lets a plugin report its devices again with one changed."""
        name = change["resource"]
        self.plugins[name] = [
            replace(d, healthy=change["healthy"]) if d.id == change["id"] else d
            for d in self.plugins[name]
        ]
        found = devices.with_reported(self.state.devices, name, self._resource(name))
        self.state = replace(self.state, devices=found)

    def step(self, step: Json) -> Outcome:
        """Carries out one step; the pods that were decided about, with their decisions."""
        [(name, argument)] = step.items()
        match name:
            case "admit":
                pod = reading.pod(argument)
                return [(pod, self.admit(pod))]
            case "resize":
                pod = reading.pod(argument)
                if pod.uid not in self.state.pods:
                    return []
                return [(pod, self.admit(pod, Operation.RESIZE))]
            case "remove":
                self.remove(argument)
            case "start":
                self.state = host.containers_started(self.state, argument)
            case "restart":
                return self.restart()
            case "device_health":
                self.set_health(argument)
            case _:
                raise WireError(f"unknown step {name!r} in a scenario")
        return []


def prefer_lowest(
    _name: str, offered: tuple[str, ...], must: tuple[str, ...], count: int
) -> tuple[str, ...]:
    """What the plugins of the vectors prefer: what must be, then the lowest ids."""
    rest = [device for device in sorted(offered) if device not in must]
    return (*must, *rest[: max(0, count - len(must))])


def scenario(line: Json, version: Version) -> list[str]:
    """The differences between a recorded scenario and ours."""
    expected = line["expected"]
    try:
        replay = Replay(line["scenario"], version)
    except StartError as error:
        return _start_differences(expected, error)
    if "start_error" in expected or "start_error_any_of" in expected:
        return [f"it started, expected the refusal {_start_text(expected)}"]
    differences = list(_initial_differences(replay, expected))
    defect = min((step for step, _ in expected.get("real_code_defects", ())), default=None)
    for number, (step, wanted) in enumerate(
        zip(line["scenario"]["steps"], expected["steps"], strict=True)
    ):
        if number == defect:
            return differences  # from here on the real code broke its own rules
        found = list(_step_differences(replay, step, wanted))
        differences += [f"step {number} ({_step_name(step)}): {text}" for text in found]
        if found:
            return differences
    return differences + list(_file_differences(replay, expected.get("files") or {}))


def _start_text(expected: Json) -> str:
    return str(expected.get("start_error") or expected.get("start_error_any_of"))


def _start_differences(expected: Json, error: StartError) -> list[str]:
    texts = expected.get("start_error_any_of") or [expected.get("start_error")]
    if error.text in texts and error.phase == expected.get("start_error_phase"):
        return []
    return [
        f"refused to start in {error.phase}: {error.text}; "
        f"expected {expected.get('start_error_phase')}: {_start_text(expected)}"
    ]


def _initial_differences(replay: Replay, expected: Json) -> Iterator[str]:
    reserved = format_list(replay.host.cpu.reserved) if replay.host.cpu else ""
    if reserved != expected["reserved_cpus"]:
        yield f"reserved CPUs {reserved}, expected {expected['reserved_cpus']}"
    shared = format_list(replay.state.cpu.shared)
    if shared != expected["initial_shared_cpus"]:
        yield f"initial shared CPUs {shared}, expected {expected['initial_shared_cpus']}"


def _step_name(step: Json) -> str:
    [(name, argument)] = step.items()
    subject = argument.get("uid", argument) if isinstance(argument, Mapping) else argument
    return f"{name} {subject}"


def _step_differences(replay: Replay, step: Json, wanted: Json) -> Iterator[str]:
    try:
        outcome = replay.step(step)
    except StartError as error:
        text = f"{error.phase}: {error.text}"
        if text != wanted.get("error"):
            yield f"refused to start: {text}; expected {wanted.get('error', 'a start')}"
        return
    if "error" in wanted:
        yield f"it started, expected {wanted['error']}"
        return
    yield from _outcome_differences(replay, step, outcome, wanted)
    yield from _state_differences(replay.state, wanted)


def _outcome_differences(
    replay: Replay, step: Json, outcome: Outcome, wanted: Json
) -> Iterator[str]:
    if "restart" in step:
        for (pod, decision), other in zip(outcome, wanted.get("readmit") or (), strict=True):
            for text in _decision_differences(replay, pod, decision, other):
                yield f"pod {pod.uid}: {text}"
        return
    for pod, decision in outcome:
        yield from _decision_differences(replay, pod, decision, wanted)
    if "start" in step and step["start"] in replay.state.pods:
        yield from _placement_differences(replay, replay.state.pods[step["start"]], wanted)


def _decision_differences(
    replay: Replay, pod: Pod, decision: Decision, wanted: Json
) -> Iterator[str]:
    if "qos" in wanted:
        qos = qos_class(pod, replay.settings)
        if qos != wanted["qos"]:
            yield f"QoS class {qos}, expected {wanted['qos']}"
    match decision:
        case Broken(kind, statement):
            yield f"the kubelet {kind} ({statement}), expected {_outcome(wanted)}"
        case Rejected(reason, message):
            texts = wanted.get("message_any_of") or [wanted.get("message", "")]
            if wanted.get("admitted") or reason != wanted.get("reason") or message not in texts:
                yield f"rejected with {reason}: {message}; expected {_outcome(wanted)}"
        case Admitted():
            if not wanted.get("admitted"):
                yield f"admitted, expected {_outcome(wanted)}"
            else:
                yield from _placement_differences(replay, pod, wanted)


def _outcome(wanted: Json) -> str:
    if wanted.get("admitted"):
        return "admission"
    text = wanted.get("message") or wanted.get("message_any_of")
    return f"{wanted.get('reason')}: {text}"


def _placement_differences(replay: Replay, pod: Pod, wanted: Json) -> Iterator[str]:
    found = placements(replay.state, pod)
    for placement, other in zip(found, wanted.get("containers") or (), strict=True):
        ours = _shown(replay, placement)
        theirs: dict[str, Any] = {key: value for key, value in other.items() if key != "name"}
        for held in theirs.get("devices", {}).values():
            held.setdefault("ids", None)
        for name, held in ours.get("devices", {}).items():
            expected = theirs.get("devices", {}).get(name)
            if expected is not None and expected["ids"] is None:
                held["ids"] = None
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                yield (
                    f"container {placement.container}: {key} {ours.get(key)}, "
                    f"expected {theirs.get(key)}"
                )


def _shown(replay: Replay, placement: Placement) -> dict[str, Any]:
    shown: dict[str, Any] = {"hint": shown_hint(placement.hint)}
    if placement.cpus is not None:
        shown["cpus"] = format_list(placement.cpus)
    if placement.memory:
        blocks = sorted(placement.memory, key=lambda b: b.type)
        shown["memory"] = [{"numa": list(b.nodes), "type": b.type, "size": b.size} for b in blocks]
    if placement.devices:
        shown["devices"] = {
            name: _shown_devices(replay, name, ids) for name, ids in placement.devices.items()
        }
    return shown


def _shown_devices(replay: Replay, name: str, ids: tuple[str, ...]) -> dict[str, Any]:
    nodes = {d.id: ",".join(str(n) for n in d.nodes or ()) for d in replay.plugins[name]}
    by_numa: dict[str, int] = {}
    for device in ids:
        place = nodes[device] or "none"
        by_numa[place] = by_numa.get(place, 0) + 1
    return {"ids": sorted(ids), "by_numa": by_numa}


def shown_hint(hint: Hint) -> dict[str, Any]:
    numa = None if hint.nodes is None else list(bits(hint.nodes))
    return {"numa": numa, "preferred": hint.preferred}


def _state_differences(state: HostState, wanted: Json) -> Iterator[str]:
    shared = format_list(state.cpu.shared)
    if shared != wanted.get("shared_cpus", ""):
        yield f"shared CPUs {shared}, expected {wanted.get('shared_cpus')}"
    if "memory_state" in wanted:
        ours = {
            str(i): {
                "free": {name: table.free for name, table in node.tables.items()},
                "assignments": node.assignments,
                "cells": list(node.cells),
            }
            for i, node in state.memory.machine.items()
        }
        if ours != wanted["memory_state"]:
            yield f"memory state {ours}, expected {wanted['memory_state']}"


def _file_differences(replay: Replay, files: Json) -> Iterator[str]:
    if not files:
        return  # the record holds none, as after a refused start
    ours = replay.files()
    for name in sorted(ours.keys() | {n for n in files if not n.endswith("_unstable")}):
        if f"{name}_unstable" not in files and ours.get(name) != files.get(name):
            yield f"file {name}: {ours.get(name)}, expected {files.get(name)}"
