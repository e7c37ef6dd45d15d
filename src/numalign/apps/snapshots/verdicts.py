"""Pods asked about one after the other, and the answers for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from numalign.core.explain.alignment import PlacedContainer, placed
from numalign.core.kubelet.admission.verdict import HostSnapshot, Verdict, decide, refusal
from numalign.core.kubelet.decisions import Admitted
from numalign.core.pod import Pod, qos_class
from numalign.wire.placed_container import container_placement
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord


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
    snapshot: HostSnapshot, records: Iterable[PodRecord], *, is_critical: bool = False
) -> Iterator[Outcome]:
    """Each pod asked in turn, on the host as those before have left it."""
    for number, record in enumerate(records):
        pod = core_pod(record)
        if pod.uid in snapshot.state.pods:
            # Asked is about one more of its kind: it would be given what it already holds.
            pod = replace(pod, uid=f"{pod.uid}-again-{number}")
        after, verdict = decide(snapshot, pod, is_critical=is_critical)
        if record.metadata.owner:
            after = replace(after, owners={**after.owners, pod.uid: record.metadata.owner})
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
        found["containers"] = [
            {
                "name": one.placement.container,
                **msgspec.to_builtins(container_placement(one)),
            }
            for one in placed_containers(outcome)
        ]
    return found


def placed_containers(outcome: Outcome) -> list[PlacedContainer]:
    """Where each container of an admitted pod would sit."""
    if not isinstance(outcome.verdict, Admitted):
        return []
    after = outcome.after
    pool = after.state.cpu.shared
    found = outcome.verdict.placements
    return [placed(after.host, after.state.devices, placement, pool) for placement in found]
