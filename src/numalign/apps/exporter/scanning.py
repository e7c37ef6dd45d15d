"""One look at the host: PodResources API, configuration, machine and state files."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.grpc import podresources_client
from numalign.adapters.local.files import read_current
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.sources import discovery
from numalign.core.cluster.publish.export import HostReport
from numalign.core.errors import ConfigError, NumalignError
from numalign.core.machine.kubelet_view import MachineInfo, machine_info
from numalign.core.machine.machine import Machine
from numalign.core.settings import Settings, Version
from numalign.wire.checkpoints import state_files
from numalign.wire.checkpoints.state_files import StateFiles
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.host_settings import host_settings

CONFIG_BYTES_MAX: Final = 1 << 20

log = structlog.get_logger("numalign.export")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where everything about this host is found."""

    host_name: str
    pod_resources: Path
    kubelet_config: Path
    state: Path | None = None  # the kubelet's directory; None: state files are not read
    machine: str | None = None
    excluded: frozenset[str] = field(default_factory=frozenset)


class Scanner:
    """Looks at one host. The machine is read once, everything else every time.

    A configuration that cannot be read any more, while somebody changes it perhaps, is taken as it
    was the last time: the kubelet runs with that one until it is started anew.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._machine: Machine = discovery.discover(sources.machine)
        self._info: MachineInfo = machine_info(self._machine)
        self._config: kubelet_config.KubeletConfig | None = None
        self._config_error = ""

    async def scan(self, version: Version) -> HostReport:
        """The host as it is now, without its pods; NumalignError if it cannot be read."""
        sources = self.sources
        config = self._configured(version)
        settings = host_settings(config, self._machine, version=version)
        view = await podresources_client.read(sources.pod_resources)
        state = self._state(settings)
        return HostReport(
            name=sources.host_name,
            machine=self._machine,
            info=self._info,
            settings=settings,
            view=view,
            cpu_state=state.cpu,
            memory_state=state.memory,
            saved_devices=state.devices,
            pods_max=config.pods_max_on(len(self._machine.cpus)),
            excluded=sources.excluded,
        )

    def _configured(self, version: Version) -> kubelet_config.KubeletConfig:
        try:
            found = read_config(self.sources.kubelet_config, version)
        except ConfigError as error:
            if self._config is None:
                raise
            if str(error) != self._config_error:
                self._config_error = str(error)
                log.warning("configuration_kept", error=str(error))
            return self._config
        self._config, self._config_error = found, ""
        return found

    def _state(self, settings: Settings) -> StateFiles:
        """The state files, each where it can be read: they only add to what the API says."""
        root = self.sources.state
        used = {
            state_files.CPU: settings.cpu_policy == "static",
            state_files.MEMORY: settings.memory_policy == "Static",
            state_files.DEVICES: True,
        }
        found: dict[str, bytes] = {}
        for name, place in state_files.PLACES.items():
            if root is None or not used[name]:
                continue
            with contextlib.suppress(NumalignError):
                data = StateDirectory(root).read(place)
                if data is not None:
                    found[name] = data
        return state_files.decoded(found, settings)


def read_config(path: Path, version: Version) -> kubelet_config.KubeletConfig:
    """The kubelet's configuration. Keys of newer versions are passed over, as the kubelet does.

    So are feature gates of older ones: it runs with them, so they are right for its version.
    """
    try:
        data = read_current(path, CONFIG_BYTES_MAX)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}. Give the file that the kubelet is started "
            "with (--config) as --kubelet-config."
        ) from error
    try:
        if version is Version.V1_36:
            return kubelet_config.load_older(data)[0]
        return kubelet_config.load(data, version=version, strict=False)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
