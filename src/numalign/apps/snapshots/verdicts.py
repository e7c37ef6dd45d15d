"""Pods asked about one after the other, and the answers for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from numalign.apps.snapshots.inputs import LoadedSnapshot
from numalign.core.kubelet.admission.verdict import HostSnapshot, Verdict, decide, refusal
from numalign.core.kubelet.decisions import Admitted, Placement
from numalign.core.pod import Pod, qos_class
from numalign.core.values.sets import format_list
from numalign.core.values.sizes import human
from numalign.core.views.trace import hint_data
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord

HEAD = ("POD", "CONTAINER", "CPUS", "MEMORY NODES", "DEVICES")


@dataclass(frozen=True, slots=True)
class Outcome:
    pod: Pod
    before: HostSnapshot
    after: HostSnapshot
    verdict: Verdict

    @property
    def is_admitted(self) -> bool:
        return isinstance(self.verdict, Admitted)


def outcomes(
    loaded: LoadedSnapshot, records: Iterable[PodRecord], *, is_critical: bool = False
) -> Iterator[Outcome]:
    """Each pod asked in turn, on the host as those before have left it."""
    snapshot = loaded.snapshot
    for number, record in enumerate(records):
        pod = core_pod(record)
        if pod.uid in snapshot.state.pods:
            # Asked is about one more of its kind: it would be given what it already holds.
            pod = replace(pod, uid=f"{pod.uid}-again-{number}")
        after, verdict = decide(snapshot, pod, is_critical=is_critical)
        yield Outcome(pod, snapshot, after, verdict)
        snapshot = after


def as_data(outcome: Outcome) -> dict[str, Any]:
    """The answer as plain values, ready for JSON."""
    pod, verdict = outcome.pod, outcome.verdict
    found: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "qosClass": str(qos_class(pod, outcome.before.host.settings)),
        "admitted": outcome.is_admitted,
    }
    words = refusal(verdict)
    if words is not None:
        found |= {"reason": words[0], "message": words[1]}
    if isinstance(verdict, Admitted):
        found["containers"] = [_container(p, outcome) for p in verdict.placements]
    return found


def _container(placement: Placement, outcome: Outcome) -> dict[str, Any]:
    # The table does without.
    from numalign.core.kubelet.cgroup_limits import mems_of  # noqa: PLC0415
    from numalign.wire.memory_block import memory_data  # noqa: PLC0415

    mems = mems_of(placement.memory)
    return {
        "name": placement.container,
        "exclusive": placement.cpus is not None,
        "cpus": format_list(_cpus(placement, outcome.after)),
        "memoryNodes": None if mems is None else list(mems),
        "memory": memory_data(placement.memory),
        "devices": {name: list(ids) for name, ids in placement.devices.items()},
        "hint": hint_data(placement.hint),
    }


def _cpus(placement: Placement, after: HostSnapshot) -> int:
    return after.state.cpu.shared if placement.cpus is None else placement.cpus


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """The lines of a table for one admitted pod, one for each container."""
    if not isinstance(outcome.verdict, Admitted):
        return []
    name = f"{outcome.pod.namespace}/{outcome.pod.name}"
    return [
        (
            name if number == 0 else "",
            placement.container,
            _cpus_text(placement),
            _memory_text(placement),
            _devices_text(placement),
        )
        for number, placement in enumerate(outcome.verdict.placements)
    ]


def _cpus_text(placement: Placement) -> str:
    return "shared" if placement.cpus is None else format_list(placement.cpus)


def _memory_text(placement: Placement) -> str:
    if not placement.memory:
        return "any"
    parts = []
    for block in placement.memory:
        nodes = ",".join(map(str, block.nodes))
        kind = "" if block.type == "memory" else f" {block.type}"
        parts.append(f"{nodes} ({human(block.size)}{kind})")
    return ", ".join(parts)


def _devices_text(placement: Placement) -> str:
    return ", ".join(f"{name} {', '.join(ids)}" for name, ids in placement.devices.items()) or "-"
