"""One host's plugin, put together: its state, its driver, its socket, and connecting again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.grpc import podresources_client
from numalign.adapters.grpc.podresources import PodResources
from numalign.adapters.local.files import read_small, reason_of
from numalign.adapters.local.private import make_private
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.nri import connection as nri
from numalign.adapters.nri.cpusets import Cpusets
from numalign.adapters.nri.two_copies import TwoCopies
from numalign.adapters.sources import discovery
from numalign.apps.nri import saved
from numalign.apps.nri.driver import Driver
from numalign.apps.nri.events import HostFileChanged
from numalign.apps.nri.guard import check_kubelet
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.nri.model import NriState
from numalign.apps.nri.policy import HostPolicy, host_policy
from numalign.apps.nri.steps.managers import managed_by_kubelet
from numalign.core.errors import (
    ConfigError,
    CorruptCheckpointError,
    NumalignError,
    PeerError,
)
from numalign.core.machine.machine import Machine
from numalign.core.views.podresources import View, resources_view
from numalign.wire.nri import host_file

BACKOFF_SECONDS: Final = (0.2, 5.0)  # first and longest wait between two connections
STEADY_SECONDS: Final = 10.0  # a connection that lasted so long was a good one
HOST_FILE_SECONDS: Final = 1.0  # how often the host file is looked at
HOST_FILE_BYTES_MAX: Final = 1 << 20
SYNCHRONIZED_SECONDS_MAX: Final = 3.0  # of a runtime that has started us
DAMAGED: Final = "nri_state.damaged"
_INDEX: Final = re.compile(r"[0-9]{2}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]{1,63}")

log = structlog.get_logger("numalign.nri")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where everything of this host is found."""

    state: Path
    config: Path | None = None
    socket: Path = Path("/var/run/nri/nri.sock")
    descriptor: int | None = None  # a connection that the runtime has opened
    pod_resources: Path | None = None  # our own socket
    kubelet_config: Path = Path("/var/lib/kubelet/config.yaml")
    kubelet: Path = Path("/var/lib/kubelet")
    cgroups: Path = Path("/sys/fs/cgroup")
    machine: str | None = None
    index: str = "10"
    name: str = "numalign"

    def check(self) -> None:
        """ConfigError for a name or an index that no runtime takes."""
        if _INDEX.fullmatch(self.index) is None:
            raise ConfigError(f"--index: found {self.index!r}, expected two digits such as 10")
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(
                f"--name: found {self.name!r}, expected letters, digits and any of _ . + -"
            )


class Plugin:
    """The whole plugin of one host."""

    def __init__(self, places: Places) -> None:
        places.check()
        self.metrics = NriMetrics()
        self._places = places
        for note in check_kubelet(places.kubelet_config, places.kubelet):
            log.warning("kubelet_not_checked", reason=note)
        self._machine: Machine = discovery.discover(places.machine)
        self._read = b""
        policy = self._policy()
        make_private(places.state)
        files = StateDirectory(places.state)
        files.prepare()
        self._kubelet = places.kubelet / "pod-resources/kubelet.sock"
        file = TwoCopies(places.state / saved.FILE_NAME)
        self._driver = Driver(
            taken_up(policy, file),
            file,
            files,
            self.metrics,
            kubelet=self._kubelet,
            on_config=self._configured,
            cpusets=Cpusets(places.cgroups),
        )
        self._error = "the runtime has not been reached yet"

    def problems(self) -> list[str]:
        """Why containers are not placed, or not as promised; empty if all is well."""
        state = self._driver.state
        if not state.is_synchronized:
            return [self._error]
        found = [
            f"container {name} of pod {uid} has no CPUs of its own"
            for uid, name in sorted(state.unplaced)
        ]
        if state.pending is not None:
            found.append("a new host file waits for containers that hold what it takes away")
        return found

    def is_synchronized(self) -> bool:
        """Whether containers are placed at this moment."""
        return self._driver.state.is_synchronized

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    def view(self) -> View:
        """Who holds what, in the shape of the PodResources API."""
        state = self._driver.state
        return resources_view(state.policy.host, state.host)

    async def run(self) -> None:
        """Works until cancelled; a plugin that the runtime has started ends with it."""
        await self._check_kubelet()
        server = None
        watching = asyncio.create_task(self._watch_host_file())
        try:
            if self._places.pod_resources is not None:
                server = PodResources(self._places.pod_resources, self.view)
                await server.start()
            await self._stay_connected()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            if server is not None:
                await server.stop()
            self._driver.stop()

    async def _check_kubelet(self) -> None:
        """ConfigError if a kubelet that answers has static managers. One may start after us."""
        if not self._kubelet.exists():
            return
        try:
            found = managed_by_kubelet(
                await podresources_client.read(self._kubelet, podresources_client.SECONDS_MAX)
            )
        except PeerError as error:
            log.warning("kubelet_not_checked", reason=str(error))
            return
        if found is not None:
            raise ConfigError(f"{self._kubelet}: {found}")

    async def _stay_connected(self) -> None:
        places = self._places
        first, longest = BACKOFF_SECONDS
        wait = first
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                if places.descriptor is not None and await self._serve_inherited(places.descriptor):
                    return
                connection = await nri.connected(places.socket)
                await self._driver.serve(connection, places.name, places.index)
            except NumalignError as error:
                if str(error) != self._error or self._driver.is_ended:
                    log.warning("runtime_lost", error=str(error))
                self._error = str(error)
            if places.descriptor is not None:
                return
            self._driver.is_ended = False
            wait = first if loop.time() - began > STEADY_SECONDS else min(longest, wait * 2)
            await asyncio.sleep(wait * (0.5 + 0.5 * random.random()))  # noqa: S311 - no secret

    async def _serve_inherited(self, descriptor: int) -> bool:
        """Serves the runtime that started us; False if it does not tell what runs already.

        containerd 1.7 tells that only to plugins that connect themselves. Without it CPUs could be
        given twice, so we connect like one of those.
        """
        connection = await nri.inherited(descriptor)
        serving = asyncio.create_task(
            self._driver.serve(connection, self._places.name, self._places.index)
        )
        await asyncio.wait([serving], timeout=SYNCHRONIZED_SECONDS_MAX)
        if self._driver.state.is_synchronized:
            await serving
            return True
        log.warning("runtime_tells_nothing", then=f"connecting to {self._places.socket}")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return False

    # The host file.

    def _policy(self) -> HostPolicy:
        path = self._places.config
        if path is None:
            return host_policy(None, self._machine)
        data = read_small(path, HOST_FILE_BYTES_MAX)
        if data is None:
            raise ConfigError(f"{path}: there is no such file. Give a host file with --config.")
        self._read = data
        try:
            return host_policy(host_file.load(data), self._machine)
        except NumalignError as error:
            raise ConfigError(f"{path}: {error}") from error

    def _configured(self, text: str) -> None:
        """Takes the host file that a runtime hands to the plugin that it starts."""
        policy = host_policy(host_file.load(text), self._machine)
        self._driver.handle(HostFileChanged(policy))

    async def _watch_host_file(self) -> None:
        path = self._places.config
        while path is not None:
            await asyncio.sleep(HOST_FILE_SECONDS)
            with contextlib.suppress(ConfigError):
                data = read_small(path, HOST_FILE_BYTES_MAX)
                if data is not None and data != self._read:
                    self._changed()

    def _changed(self) -> None:
        try:
            policy = self._policy()
        except NumalignError as error:
            log.warning("host_file_refused", error=str(error))
            return
        self._driver.handle(HostFileChanged(policy))


def taken_up(policy: HostPolicy, file: TwoCopies) -> NriState:
    """The state that the file tells; a damaged one is put aside, and what runs is taken over."""
    copies = file.read()
    if copies:
        try:
            found = saved.load(copies, policy.host, path=str(file.path))
        except CorruptCheckpointError as error:
            aside = file.path.with_name(DAMAGED)
            log.warning("state_damaged", error=str(error), kept_as=str(aside))
            try:
                file.path.rename(aside)
            except OSError as fault:
                raise ConfigError(
                    f"{file.path}: cannot be put aside: {reason_of(fault)}."
                ) from fault
        else:
            if found.fault:
                # So is one that a crash has left; the last answer was not given then.
                log.warning("state_copy_damaged", error=found.fault, then="took the other copy")
            file.number = found.number
            return NriState(policy, found.host, stopped=found.stopped)
    return NriState(policy, saved.empty(policy.host))
