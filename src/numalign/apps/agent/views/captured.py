"""The agent's state as a bundle, from which the same state can be built elsewhere."""

from __future__ import annotations

from numalign import __version__
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.core.errors import ConfigError
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.kubelet.devices.devices import DeviceResource
from numalign.core.machine.machine import Machine
from numalign.wire import bundle
from numalign.wire.bundle import About, Bundle, DeviceRecord
from numalign.wire.checkpoints import state_files
from numalign.wire.kubelet.config import document_of
from numalign.wire.machine.machine_yaml import to_json
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.running import reduced


def captured(setup: AgentSetup, state: AgentState, machine: Machine, created_at: str) -> Bundle:
    """Everything that decisions of this agent depend on, at one moment."""
    if setup.kubelet is None:
        raise ConfigError("this agent does not know its configuration, so it has no capture")
    settings = setup.host.settings
    resources = state.host.devices.resources
    notes = [
        f"the plugin of {name} has a say in which devices are given; without it the lowest ids are"
        for name, resource in sorted(resources.items())
        if resource.has_preferred
    ]
    files = state_files.encoded(state.host, settings)
    about = About(
        created_at=created_at,
        numalign=__version__,
        host=machine.name,
        kubernetes=settings.version.value,
        fidelity=settings.fidelity,
        origin="agent",
        pods_complete=True,
        pods_max=setup.totals[PODS],
        devices={name: _devices(found) for name, found in sorted(resources.items())},
        notes=tuple(notes),
    )
    return Bundle(
        about,
        {
            bundle.MACHINE: to_json(machine).encode(),
            bundle.CONFIG: bundle.document(document_of(setup.kubelet)),
            bundle.PODS: bundle.pod_list(_active(state)),
            **{f"state/{name}": data for name, data in files.items()},
        },
    )


def _active(state: AgentState) -> tuple[PodRecord, ...]:
    found = []
    for uid in state.host.pods:
        record = reduced(state.pods[uid].record)
        record.metadata.uid = uid
        found.append(record)
    return tuple(found)


def _devices(resource: DeviceResource) -> tuple[DeviceRecord, ...]:
    return tuple(
        DeviceRecord(
            device,
            resource.nodes_of[device] if resource.topology_given >> number & 1 else None,
            bool(resource.healthy >> number & 1),
        )
        for number, device in enumerate(resource.ids)
    )
