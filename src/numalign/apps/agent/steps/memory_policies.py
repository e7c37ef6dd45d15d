"""Whether the memory policies of a pod can be carried out where the managers have put it."""

from __future__ import annotations

from typing import Final

from numalign.apps.agent import notes
from numalign.apps.agent.events import Effect, Publish
from numalign.apps.agent.model import AgentSetup, memory_nodes
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod
from numalign.core.values.mempolicy import Mode
from numalign.wire.pods.annotations import mempolicy_of
from numalign.wire.pods.records import PodRecord

REASON: Final = "MemoryPolicyError"


def fault(setup: AgentSetup, after: HostState, record: PodRecord, pod: Pod) -> str:
    """What is wrong with the first policy that cannot be had; empty if all can."""
    for container in pod.in_order:
        asked = mempolicy_of(record, container.name)
        if asked is None:
            continue
        try:
            asked.within(memory_nodes(setup, after, pod.uid, container.name))
        except ValueError as error:
            return f"container {container.name}: {error}"
        is_missing = setup.runs_processes and not setup.has_weighted_interleave
        if asked.mode is Mode.WEIGHTED_INTERLEAVE and is_missing:
            return (
                f"container {container.name}: memory policy {asked}: this kernel has none, "
                "expected Linux 6.9 or newer; use interleave"
            )
    return ""


def not_set(setup: AgentSetup, record: PodRecord, pod: Pod) -> list[Effect]:
    """Says, once, which policies the runtime cannot carry out."""
    why = setup.without_mempolicy
    asked = [(c.name, mempolicy_of(record, c.name)) for c in pod.in_order] if why else []
    return [
        Publish(notes.MemoryPolicyNotSet(pod, name, str(policy), why))
        for name, policy in asked
        if policy is not None
    ]
