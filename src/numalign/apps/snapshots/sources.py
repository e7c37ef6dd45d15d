"""Where snapshots come from: one word from the operator, or the raw files of a host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numalign.adapters.local.files import read_small
from numalign.adapters.sources import discovery
from numalign.apps.snapshots.host_files import CONFIG_BYTES_MAX, read_yaml, state_files
from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.core.errors import ConfigError
from numalign.core.kubelet import older_versions
from numalign.core.settings import Fidelity
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.nri import host_file

if TYPE_CHECKING:
    from numalign.core.kubelet.older_versions import Kubernetes
    from numalign.core.machine.machine import Machine
    from numalign.wire.bundle import Bundle
    from numalign.wire.kubelet.config import KubeletConfig
    from numalign.wire.pods.records import PodRecord

UNIX: Final = "unix://"


def inputs_of(
    on: str | None = None,
    *,
    machine: str | None = None,
    config: Path | None = None,
    state: Path | None = None,
    pods: Iterable[PodRecord] = (),
    kubernetes: Kubernetes | None = None,
    fidelity: Fidelity | None = None,
) -> SnapshotInputs:
    """What is known of ``on``: host, an agent's URL, a bundle, or any machine.

    ``config`` takes the place of the host's own, ``kubernetes`` and ``fidelity`` likewise; ``pods``
    are added to those that are known.
    """
    if on is not None and (machine is not None or state is not None):
        raise ConfigError("found --on beside --machine or --state, expected one or the other.")
    if on is None and machine is None and state is None and config is None:
        on = discovery.HOST
    found = _known(on, kubernetes) if on is not None else None
    if found is None:
        source = on or machine
        found = SnapshotInputs(source=source or discovery.HOST, machine=discovery.discover(source))
        if state is not None:
            found = replace(found, state=state_files(state))
    found = replace(found, fidelity=fidelity or found.fidelity)
    if kubernetes is not None:
        found = replace(found, version=kubernetes.rules, older=_older(kubernetes))
    if config is not None:
        found = _configured(found, config, kubernetes=kubernetes, fidelity=fidelity)
    found = replace(found, pods=_joined(found.pods, pods))
    return replace(found, notes=(*found.notes, *_version_notes(found)))


def _older(kubernetes: Kubernetes) -> Kubernetes | None:
    return None if kubernetes.is_exact else kubernetes


def _version_notes(found: SnapshotInputs) -> tuple[str, ...]:
    if found.older is None:
        return ()
    config = found.config or kubelet_config.KubeletConfig()
    return older_versions.notes(
        found.older, config.cpu_options, config.topology_options, config.feature_gates
    )


def _loaded_config(
    data: bytes, kubernetes: Kubernetes, where: str
) -> tuple[KubeletConfig, tuple[str, ...]]:
    """A kubelet's configuration, and what to say about one of an older version."""
    try:
        if kubernetes.is_exact:
            # The host file of the NRI plugin has one key more; it means nothing to others.
            return host_file.load(data, version=kubernetes.rules).kubelet, ()
        config, gone = kubelet_config.load_older(data)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}{_older_hint(data, kubernetes)}") from error
    if not gone:
        return config, ()
    names = ", ".join(gone)
    return config, (f"{where}: feature gates that 1.36 does not take are passed over: {names}",)


def _older_hint(data: bytes, kubernetes: Kubernetes) -> str:
    """What to try with a file that is only wrong for versions as new as this one."""
    if not kubernetes.is_exact:
        return ""
    try:
        kubelet_config.load_older(data)
    except ConfigError:
        return ""
    return ". If it is that of an older kubelet, say so with --kubernetes 1.28 to 1.35."


def _known(on: str, kubernetes: Kubernetes | None) -> SnapshotInputs | None:
    """The inputs of a source that is more than a machine; None for a machine."""
    if on == discovery.HOST:
        return _here(kubernetes)
    if on.startswith(("http://", "https://", UNIX)):
        return _agents(on, kubernetes)
    path = Path(on)
    if not discovery.exists(path):
        return None
    from numalign.adapters.sources.bundles import holds_bundle, read_bundle  # noqa: PLC0415

    if not holds_bundle(path):
        return None
    return inputs_in(read_bundle(path), on, kubernetes=kubernetes)


def _here(kubernetes: Kubernetes | None) -> SnapshotInputs:
    """This host: its kubelet, or else our own agent if that runs, or else the machine alone."""
    from numalign.adapters.local import paths  # noqa: PLC0415
    from numalign.apps.snapshots.this_host import Places, captured  # noqa: PLC0415
    from numalign.wire.bundle import CONFIG  # noqa: PLC0415

    found, machine = captured(Places(), created_at="")
    if CONFIG not in found.files:
        socket = paths.socket_path(paths.state_directory())
        if socket.is_socket():
            return _agents(f"{UNIX}{socket}", kubernetes)
    return inputs_in(found, discovery.HOST, machine, kubernetes)


def _agents(url: str, kubernetes: Kubernetes | None) -> SnapshotInputs:
    from numalign.adapters.local.agent_client import capture_of  # noqa: PLC0415
    from numalign.adapters.sources.bundles import bundle_from_bytes  # noqa: PLC0415

    return inputs_in(bundle_from_bytes(capture_of(url), url), url, kubernetes=kubernetes)


def inputs_in(
    found: Bundle,
    source: str,
    machine: Machine | None = None,
    kubernetes: Kubernetes | None = None,
) -> SnapshotInputs:
    """What a bundle tells; ``machine`` where it was already read, ``kubernetes`` if told apart."""
    from numalign.adapters.sources.bundles import machine_of  # noqa: PLC0415
    from numalign.wire.bundle import CONFIG  # noqa: PLC0415

    about = found.about
    text = found.files.get(CONFIG)
    kubernetes = kubernetes or found.kubernetes
    config, notes = None, tuple[str, ...]()
    if text is not None:
        config, notes = _loaded_config(text, kubernetes, f"{source}: {CONFIG}")
    return SnapshotInputs(
        source=source,
        machine=machine or machine_of(found, source),
        config=config,
        version=kubernetes.rules,
        older=_older(kubernetes),
        fidelity=about.fidelity,
        state=found.state,
        pods=found.pods(source),
        pods_complete=about.pods_complete,
        names=about.names,
        pod_resources=found.pod_resources(source),
        devices=found.devices(),
        pods_max=about.pods_max,
        notes=(*about.notes, *notes),
        origin=about.origin,
        taken_at=about.created_at,
    )


def _configured(
    found: SnapshotInputs, path: Path, *, kubernetes: Kubernetes | None, fidelity: Fidelity | None
) -> SnapshotInputs:
    """The inputs with the configuration of a file: the kubelet's, or our agent's."""
    data, content = read_yaml(path)
    if not isinstance(content, dict) or content.get("kind") != "AgentConfiguration":
        host = found.older or older_versions.of(found.version)
        config, notes = _loaded_config(data, host, str(path))
        return replace(found, config=config, pods_max=None, notes=(*found.notes, *notes))
    return _agent_configured(found, data, path, kubernetes=kubernetes, fidelity=fidelity)


def _agent_configured(
    found: SnapshotInputs,
    data: bytes,
    path: Path,
    *,
    kubernetes: Kubernetes | None,
    fidelity: Fidelity | None,
) -> SnapshotInputs:
    from numalign.apps.agent import config as agent_config  # noqa: PLC0415

    def beside(name: str) -> bytes:
        inner = read_small(Path(name), CONFIG_BYTES_MAX)
        if inner is None:
            raise ConfigError(f"{path}: kubeletConfig: there is no file {name}.")
        return inner

    chosen = agent_config.load(data, source=str(path), read=beside)
    devices = {item.resource: item.on(found.machine) for item in chosen.devices}
    return replace(
        found,
        config=chosen.kubelet,
        version=chosen.version if kubernetes is None else kubernetes.rules,
        fidelity=fidelity or chosen.fidelity,
        pods_max=chosen.pods_max,
        devices={**(found.devices or {}), **devices} if devices else found.devices,
    )


def _joined(known: tuple[PodRecord, ...], more: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
    """The pods of two lists; one that is in both counts as in the second."""
    second = tuple(more)
    uids = {record.metadata.uid for record in second if record.metadata.uid}
    return (*(r for r in known if r.metadata.uid not in uids or not r.metadata.uid), *second)
