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
from numalign.core.settings import Fidelity, Version
from numalign.wire.kubelet import config as kubelet_config

if TYPE_CHECKING:
    from numalign.core.machine.machine import Machine
    from numalign.wire.bundle import Bundle
    from numalign.wire.pods.records import PodRecord

UNIX: Final = "unix://"


def inputs_of(
    on: str | None = None,
    *,
    machine: str | None = None,
    config: Path | None = None,
    state: Path | None = None,
    pods: Iterable[PodRecord] = (),
    version: Version | None = None,
    fidelity: Fidelity | None = None,
) -> SnapshotInputs:
    """What is known of ``on``: host, an agent's URL, a bundle, or any machine.

    ``config`` takes the place of the host's own, ``version`` and ``fidelity`` likewise; ``pods``
    are added to those that are known.
    """
    if on is not None and (machine is not None or state is not None):
        raise ConfigError("found --on beside --machine or --state, expected one or the other.")
    if on is None and machine is None and state is None and config is None:
        on = discovery.HOST
    found = _known(on) if on is not None else None
    if found is None:
        source = on or machine
        found = SnapshotInputs(source=source or discovery.HOST, machine=discovery.discover(source))
        if state is not None:
            found = replace(found, state=state_files(state))
    found = replace(found, version=version or found.version, fidelity=fidelity or found.fidelity)
    if config is not None:
        found = _configured(found, config, version=version, fidelity=fidelity)
    return replace(found, pods=_joined(found.pods, pods))


def _known(on: str) -> SnapshotInputs | None:
    """The inputs of a source that is more than a machine; None for a machine."""
    if on == discovery.HOST:
        return _here()
    if on.startswith(("http://", "https://", UNIX)):
        return _agents(on)
    path = Path(on)
    if not discovery.exists(path):
        return None
    from numalign.adapters.sources.bundles import holds_bundle, read_bundle  # noqa: PLC0415

    return inputs_in(read_bundle(path), on) if holds_bundle(path) else None


def _here() -> SnapshotInputs:
    """This host: its kubelet, or else our own agent if that runs, or else the machine alone."""
    from numalign.adapters.local import paths  # noqa: PLC0415
    from numalign.apps.snapshots.this_host import Places, captured  # noqa: PLC0415
    from numalign.wire.bundle import CONFIG  # noqa: PLC0415

    found, machine = captured(Places(), created_at="")
    if CONFIG not in found.files:
        socket = paths.socket_path(paths.state_directory())
        if socket.is_socket():
            return _agents(f"{UNIX}{socket}")
    return inputs_in(found, discovery.HOST, machine)


def _agents(url: str) -> SnapshotInputs:
    from numalign.adapters.local.agent_client import capture_of  # noqa: PLC0415
    from numalign.adapters.sources.bundles import bundle_from_bytes  # noqa: PLC0415

    return inputs_in(bundle_from_bytes(capture_of(url), url), url)


def inputs_in(found: Bundle, source: str, machine: Machine | None = None) -> SnapshotInputs:
    """What a bundle tells; ``machine`` where it was already read."""
    from numalign.adapters.sources.bundles import machine_of  # noqa: PLC0415
    from numalign.wire.bundle import CONFIG  # noqa: PLC0415

    about = found.about
    text = found.files.get(CONFIG)
    config = None
    if text is not None:
        try:
            config = kubelet_config.load(text, version=about.kubernetes)
        except ConfigError as error:
            raise ConfigError(f"{source}: {CONFIG}: {error}") from error
    return SnapshotInputs(
        source=source,
        machine=machine or machine_of(found, source),
        config=config,
        version=about.kubernetes,
        fidelity=about.fidelity,
        state=found.state,
        pods=found.pods(source),
        pods_complete=about.pods_complete,
        names=about.names,
        pod_resources=found.pod_resources(source),
        devices=found.devices(),
        pods_max=about.pods_max,
        notes=about.notes,
    )


def _configured(
    found: SnapshotInputs, path: Path, *, version: Version | None, fidelity: Fidelity | None
) -> SnapshotInputs:
    """The inputs with the configuration of a file: the kubelet's, or our agent's."""
    data, content = read_yaml(path)
    if not isinstance(content, dict) or content.get("kind") != "AgentConfiguration":
        try:
            config = kubelet_config.load(data, version=found.version)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        return replace(found, config=config, pods_max=None)
    return _agent_configured(found, data, path, version=version, fidelity=fidelity)


def _agent_configured(
    found: SnapshotInputs,
    data: bytes,
    path: Path,
    *,
    version: Version | None,
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
        version=version or chosen.version,
        fidelity=fidelity or chosen.fidelity,
        pods_max=chosen.pods_max,
        devices={**(found.devices or {}), **devices} if devices else found.devices,
    )


def _joined(known: tuple[PodRecord, ...], more: Iterable[PodRecord]) -> tuple[PodRecord, ...]:
    """The pods of two lists; one that is in both counts as in the second."""
    second = tuple(more)
    uids = {record.metadata.uid for record in second if record.metadata.uid}
    return (*(r for r in known if r.metadata.uid not in uids or not r.metadata.uid), *second)
