"""The other way for a device plugin to register: it puts a socket into a watched directory.

The kubelet's plugin watcher asks each new socket what it is (GetInfo), registers it and tells it
the outcome; a socket that is removed takes its plugin with it. We look at the directory once a
second instead of being told of changes, which needs nothing from the kernel and costs next to
nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.adapters.grpc import unix as unix_grpc
from numalign.adapters.grpc.device_plugins import DIRECTORY_MODE, DevicePlugins, check_name
from numalign.core.errors import ConfigError, PeerError, WireError
from numalign.core.kubelet.devices.plugin_events import PluginEvent, RegistrationRefused
from numalign.wire.grpc import device_plugin as wire

LOOK_SECONDS: Final = 1.0
DIAL_SECONDS_MAX: Final = 10.0
INFO_SECONDS_MAX: Final = 1.0
NOTIFY_SECONDS_MAX: Final = 5.0
SOCKETS_MAX: Final = 256
DEPTH_MAX: Final = 4  # of directories below the watched one
# A change within the same tick of the filesystem's clock would not show, so a directory counts as
# settled only after a while.
SETTLED_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A socket file: one that was removed and made anew is another one."""

    path: Path
    identity: unix_grpc.Identity


class PluginWatcher:
    """Registers the device plugins of a directory such as ``plugins_registry``."""

    def __init__(
        self,
        directory: Path,
        plugins: DevicePlugins,
        report: Callable[[PluginEvent], None],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._directory = directory
        self._plugins = plugins
        self._report = report
        self._look_seconds = look_seconds
        # What became of each socket: the plugin's resource and its own socket, None if refused.
        self._known: dict[_Seen, asyncio.Task[tuple[str, Path] | None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._there: set[_Seen] = set()
        self._stamps: dict[Path, int] = {}  # when each directory last changed

    async def start(self) -> None:
        """Makes the directory and looks at it from now on."""
        try:
            self._directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as exc:
            raise PeerError(f"{self._directory}: cannot be made ({exc})") from exc
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Looks no more; plugins that are connected stay so."""
        tasks = [*self._known.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._known.clear()

    async def _look(self) -> None:
        while True:
            there = self._sockets()
            for seen in [seen for seen in self._known if seen not in there]:
                await self._remove(self._known.pop(seen))
            for seen in sorted(there - self._known.keys(), key=lambda s: s.path):
                if len(self._known) < SOCKETS_MAX:
                    self._known[seen] = asyncio.create_task(self._introduce(seen.path))
            await asyncio.sleep(self._look_seconds)

    def _sockets(self) -> set[_Seen]:
        """The sockets that are there; nothing is read anew while no directory has changed."""
        unchanged = bool(self._stamps) and all(
            stamp and _stamp(directory) == stamp for directory, stamp in self._stamps.items()
        )
        if not unchanged:
            self._there, self._stamps = _sockets(self._directory)
        return self._there

    async def _remove(self, task: asyncio.Task[tuple[str, Path] | None]) -> None:
        if not task.done():
            task.cancel()
        elif not task.cancelled() and (registered := task.result()) is not None:
            await self._plugins.disconnect(*registered)

    async def _introduce(self, path: Path) -> tuple[str, Path] | None:
        """Asks a socket what it is and registers it; it is told if that fails."""
        resource = ""
        try:
            connection = await unix_grpc.dial(path, DIAL_SECONDS_MAX)
        except (PeerError, ConfigError) as exc:
            self._report(RegistrationRefused(resource, f"{path.name}: {exc}"))
            return None
        try:
            data = await unix_grpc.called(connection, wire.GET_INFO, wire.EMPTY, INFO_SECONDS_MAX)
            info = wire.plugin_info_of(data)
            if info.type != wire.WATCHER_TYPE:
                return None  # a storage or DRA driver: none of ours, and nothing to tell it
            resource = info.name
            own = Path(info.endpoint) if info.endpoint else path
            _check(info)
            await self._plugins.connect(resource, own)
        except (PeerError, WireError, ConfigError) as exc:
            self._report(RegistrationRefused(resource, f"{path.name}: {exc}"))
            await _notify(connection, str(exc))
            return None
        else:
            await _notify(connection, "")
            return resource, own
        finally:
            await connection.close()


def _check(info: wire.PluginInfo) -> None:
    if wire.VERSION not in info.versions:
        versions = " ".join(info.versions)
        raise PeerError(
            f"manager version, {wire.VERSION}, is not among plugin supported versions [{versions}]"
        )
    try:
        check_name(info.name)
    except PeerError as exc:
        raise PeerError(f"invalid name of device plugin socket: {exc}") from exc


async def _notify(connection: unix_grpc.Channel, error: str) -> None:
    status = wire.registration_status(error)
    try:
        await unix_grpc.called(connection, wire.NOTIFY, status, NOTIFY_SECONDS_MAX)
    except PeerError:
        # The kubelet logs this and goes on: the plugin has been registered or refused anyway.
        return


def _stamp(directory: Path) -> int:
    """When a directory last got or lost a name; 0 while that may be now, or if it is gone."""
    try:
        changed = directory.stat().st_mtime_ns
    except OSError:
        return 0
    return changed if abs(time.time_ns() - changed) > SETTLED_NS else 0


def _sockets(directory: Path) -> tuple[set[_Seen], dict[Path, int]]:
    """The sockets below a directory, without names that begin with a dot; all it looked into."""
    found: set[_Seen] = set()
    stamps: dict[Path, int] = {}
    for base, directories, names in os.walk(directory):
        here = Path(base)
        stamps[here] = _stamp(here)
        depth = len(here.relative_to(directory).parts)
        directories[:] = sorted(d for d in directories if d[0] != "." and depth < DEPTH_MAX)
        for name in sorted(names):
            if name[0] == ".":
                continue
            try:
                status = (here / name).lstat()
            except OSError:
                continue  # removed while we looked
            if stat.S_ISSOCK(status.st_mode):
                found.add(_Seen(here / name, unix_grpc.identity(status)))
    return found, stamps
