"""What a manifest asks for beside its resources: refused if it promises safety, else told once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from numalign.apps.agent import notes
from numalign.apps.agent.events import Effect, Publish
from numalign.apps.agent.model import AgentPod, AgentSetup
from numalign.core.asker import Asker
from numalign.wire.pods import unheeded
from numalign.wire.pods.confinement import confinement
from numalign.wire.pods.records import ContainerRecord, PodRecord

NOT_SUPPORTED: Final = "FieldNotSupported"


def refusals(setup: AgentSetup, record: PodRecord, asker: Asker | None) -> list[str]:
    """What a pod is refused for, whatever its resources; nothing where nothing is run."""
    if not (setup.runs_processes or setup.runs_containers):
        return []
    faults = unheeded.refused(record.unheeded, is_cri=setup.runs_containers)
    if setup.runs_containers and asker is not None and not asker.is_root:
        # A container runtime does what it is told as root: mounts, devices, any user.
        text = "only root may have containers run; ask as root, or use --runtime process"
        faults.append(f"user {asker.uid} asks: {text}")
    if setup.runs_processes and setup.abilities is not None:
        spec = record.spec
        for container in (*(spec.initContainers or ()), *(spec.containers or ())):
            faults += confinement(spec, container, asker, setup.abilities)[1]
            if not setup.abilities.has_objects:
                faults += _without_source(container)
    return faults


def _without_source(container: ContainerRecord) -> Iterator[str]:
    """Values that there is no source for; one that may be missing is passed over."""
    hint = "there are no ConfigMaps and Secrets here; start the agent with --objects-dir"
    for item in container.env or ():
        source = item.valueFrom
        ref = None if source is None else source.configMapKeyRef or source.secretKeyRef
        if ref is not None and not ref.optional:
            yield f"container {container.name}: env {item.name}: {hint}"
    for group in container.envFrom or ():
        found = group.configMapRef or group.secretRef
        if found is not None and not found.optional:
            yield f"container {container.name}: envFrom {found.name}: {hint}"


def told(setup: AgentSetup, known: AgentPod) -> list[str]:
    """What of a pod is not carried out, one line each."""
    if not (setup.runs_processes or setup.runs_containers):
        return []
    return unheeded.told(known.record.unheeded, is_cri=setup.runs_containers)


def tell(setup: AgentSetup, known: AgentPod) -> Iterator[Effect]:
    """The same as a note for log and events."""
    if lines := told(setup, known):
        yield Publish(notes.FieldsNotCarriedOut(known.pod, tuple(lines)))
