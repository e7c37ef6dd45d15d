"""From inputs to a snapshot: the state files taken up as the kubelet does, and the pods found.

A state file knows pods by uid only, and whatever belongs to no active pod is freed before the next
admission. So every uid in the files gets a pod: the real one where it is known, else a stand-in
that asks for what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numalign.apps.snapshots import running
from numalign.apps.snapshots.inputs import LoadedSnapshot, SnapshotInputs
from numalign.apps.snapshots.reported import reported
from numalign.core.errors import ConfigError, CorruptCheckpointError, StartError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet import older_versions
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.devices import devices as device_rules
from numalign.core.kubelet.host import Host, HostState
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.settings import Settings
from numalign.wire.checkpoints import state_files
from numalign.wire.checkpoints.state_files import StateFiles
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.kubelet.host_settings import default_config, host_settings


def loaded(inputs: SnapshotInputs) -> LoadedSnapshot:
    """The snapshot; ConfigError where the kubelet would not start with this."""
    config, host = built(inputs)
    files = decoded(inputs, host)
    state, notes = _taken_up(inputs, host, files)
    found = running.pods_of(inputs, host, files.cpu, files.memory, files.devices)
    state = replace(state, pods=found.pods)
    offered = reported(inputs, files.devices)
    for name, items in offered.devices.items():
        resource = device_rules.device_resource(items)
        state = replace(state, devices=device_rules.with_reported(state.devices, name, resource))
    totals = node_fit.allocatable(host.settings, host.info, pods_max=pods_max(inputs))
    return LoadedSnapshot(
        HostSnapshot(
            inputs.machine, host, state, totals, found.names, _owners(inputs, found.names)
        ),
        config,
        inputs,
        found.unknown,
        (*inputs.notes, *_assumed(inputs, config), *notes, *found.notes, *offered.notes),
    )


def _assumed(inputs: SnapshotInputs, config: KubeletConfig) -> tuple[str, ...]:
    """Which settings an answer rests on where nobody has given any."""
    if inputs.config is not None:
        return ()
    version = inputs.older or inputs.version
    memory = ", ".join(f"{r.amount} on NUMA node {r.node}" for r in config.reserved_memory)
    return (
        f"no kubelet configuration is given; assumed are Kubernetes {version}, "
        f"cpuManagerPolicy {config.cpu_policy}, memoryManagerPolicy {config.memory_policy}, "
        f"topologyManagerPolicy {config.topology_policy} (scope {config.topology_scope}), "
        f"reserved CPU {config.reserved_system_cpus} and memory {memory}. "
        "Give one with --kubelet-config.",
    )


def _owners(inputs: SnapshotInputs, names: Mapping[str, str]) -> dict[str, str]:
    found = {
        f"{r.metadata.namespace or 'default'}/{r.metadata.name}": r.metadata.owner
        for r in inputs.pods
        if r.metadata.owner
    }
    return {uid: found[name] for uid, name in names.items() if name in found}


def _taken_up(
    inputs: SnapshotInputs, host: Host, files: StateFiles
) -> tuple[HostState, tuple[str, ...]]:
    """The state that the running kubelet has, and what to say about it.

    On a full host with strictly reserved CPUs the shared pool is empty. A kubelet goes on with
    that, but does not start with it.
    """
    cpu = files.cpu
    is_full = cpu is not None and bool(cpu.entries) and not cpu.shared
    try:
        state = hosts.start(
            host,
            cpu=None if is_full and not host.is_safe else cpu,
            memory=files.memory,
            saved_devices=files.devices,
        )
    except StartError as error:
        raise ConfigError(
            f"{inputs.source}: the kubelet would not start with this state: {error}. "
            "Give the configuration that wrote it, or see 'numalign replay'."
        ) from error
    if cpu is None or not is_full or host.is_safe:
        return state, ()
    note = "no CPU is left in the shared pool: the kubelet goes on, but would not start again"
    return replace(state, cpu=cpu), (note,)


def built(inputs: SnapshotInputs) -> tuple[KubeletConfig, Host]:
    """The configuration in force and the managers; ConfigError where they refuse it."""
    config, settings = settings_of(inputs)
    try:
        return config, hosts.build(settings, machine_info(inputs.machine))
    except StartError as error:
        raise ConfigError(
            f"{inputs.source}: the kubelet would not start with this configuration: {error}"
        ) from error


def settings_of(inputs: SnapshotInputs) -> tuple[KubeletConfig, Settings]:
    """The configuration in force and what it means on this machine."""
    config = inputs.config or default_config(inputs.machine)
    try:
        settings = host_settings(
            config, inputs.machine, version=inputs.version, fidelity=inputs.fidelity
        )
    except ConfigError as error:
        raise ConfigError(f"{inputs.source}: {error}") from error
    if inputs.older is None:
        return config, settings
    off = older_versions.gates_off(inputs.older, config.feature_gates)
    return config, replace(settings, gates={**settings.gates, **off})


def decoded(inputs: SnapshotInputs, host: Host) -> StateFiles:
    """What the state files say; CorruptCheckpointError with the kubelet's words if they are bad."""
    files = state_files.decoded(inputs.state, host.settings)
    fault = files.faults.get(state_files.DEVICES)
    if fault is not None and len(files.faults) == 1:
        raise CorruptCheckpointError(
            f"{inputs.source}: {state_files.DEVICES}: {fault}. The kubelet would log this and "
            "start as if no device was given; leave the file out to do the same."
        ) from fault
    return files.checked()


def pods_max(inputs: SnapshotInputs) -> int:
    config = inputs.config or KubeletConfig()
    return inputs.pods_max or config.pods_max_on(len(inputs.machine.cpus))
