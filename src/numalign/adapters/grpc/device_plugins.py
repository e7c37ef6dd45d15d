"""The kubelet's side of the device plugin protocol: who is connected, and what they report.

A resource can have several plugins at once, as during a rolling update (Kubernetes 1.37). The last
one that connected is asked; when it goes, the one before takes over with its own list, and only the
end of the last one makes the devices unhealthy. Other than 1.37, a refused second registration does
not make us forget the first, and other than 1.36, the end of an old plugin does not end a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from numalign.adapters.grpc import unix as unix_grpc
from numalign.adapters.grpc.plugin_endpoint import LIMITS, Endpoint, Limits
from numalign.core.errors import PeerError, WireError
from numalign.core.kubelet.devices import plugin_events
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.values import gotext, resource_names
from numalign.wire.grpc import device_plugin as wire

REGISTRATION_SOCKET: Final = "kubelet.sock"
DIRECTORY_MODE: Final = 0o750
REGISTER_BYTES_MAX: Final = 64 << 10
FAULTS_PER_SOCKET_MAX: Final = 10  # reported; a plugin that errs more often is known by then

Report = Callable[[plugin_events.PluginEvent], None]


@dataclass(slots=True)
class _Offer:
    """One resource: its connected plugins, the last of which is asked."""

    resource: str
    endpoints: list[Endpoint] = field(default_factory=list)
    source: Endpoint | None = None  # whose list counts
    stopped: Path | None = None  # the socket of the last one that went
    end: asyncio.TimerHandle | None = None  # when the resource is forgotten

    @property
    def current(self) -> Endpoint | None:
        return self.endpoints[-1] if self.endpoints else None


class DevicePlugins:
    """The plugins of one directory. ``report`` is called with every event, never twice at once."""

    def __init__(self, directory: Path, report: Report, *, limits: Limits = LIMITS) -> None:
        self._directory = directory
        self._report = report
        self._limits = limits
        self._offers: dict[str, _Offer] = {}
        self._connecting: set[Path] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._served: unix_grpc.Served | None = None

    @property
    def socket(self) -> Path:
        return self._directory / REGISTRATION_SOCKET

    async def start(self, known: Iterable[str] = ()) -> None:
        """Removes what an earlier run left and takes registrations.

        ``known`` are the resources of the checkpoint: each is forgotten unless its plugin comes
        back within the grace period.
        """
        try:
            self._directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            unix_grpc.remove_sockets(self._directory)
        except OSError as exc:
            raise PeerError(f"{self._directory}: cannot be used for plugins ({exc})") from exc
        self._served = await unix_grpc.serve(
            self.socket, {wire.REGISTER: self._register}, request_bytes_max=REGISTER_BYTES_MAX
        )
        for resource in known:
            self._await_return(self._offers.setdefault(resource, _Offer(resource)))

    async def stop(self) -> None:
        """Ends the server and all connections, without any further event."""
        self._report = _unheard
        if self._served is not None:
            await self._served.stop()
            self._served = None
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for offer in self._offers.values():
            if offer.end is not None:
                offer.end.cancel()
            for endpoint in offer.endpoints:
                await endpoint.close()
        self._offers.clear()

    # Registration.

    async def _register(self, data: bytes) -> bytes:
        resource = ""
        try:
            request = wire.registration_of(data)
            resource = request.resource
            _check(request)
            await self.connect(resource, self._inside(request.endpoint))
        except (PeerError, WireError) as exc:
            self._report(plugin_events.RegistrationRefused(resource, str(exc)))
            raise unix_grpc.RefusedError(str(exc)) from exc
        return wire.EMPTY

    def _inside(self, endpoint: str) -> Path:
        """The path of a plugin's socket, which must lie in the directory."""
        if not endpoint or "\0" in endpoint or ".." in Path(endpoint).parts:
            found = gotext.quoted(endpoint)
            raise PeerError(
                f"failed to dial device plugin: {found} is not the name of a socket in "
                f"{self._directory}"
            )
        return self._directory / endpoint.lstrip("/")

    async def connect(self, resource: str, path: Path) -> None:
        """Connects a plugin for a resource and watches its devices; PeerError if it cannot be."""
        replaced = self._endpoint_to_replace(resource, path)
        self._connecting.add(path)
        try:
            endpoint = await Endpoint.connected(resource, path, self._limits)
        finally:
            self._connecting.discard(path)
        if self._served is None:
            await endpoint.close()
            raise PeerError("the agent is stopping", retry=True)
        offer = self._offers.setdefault(resource, _Offer(resource))
        offer.endpoints.append(endpoint)
        if offer.end is not None:
            offer.end.cancel()
            offer.end = None
        self._report(plugin_events.PluginRegistered(resource, path.name))
        self._watch(self._follow(offer, endpoint))
        if replaced is not None:
            await replaced.close()

    def _endpoint_to_replace(self, resource: str, path: Path) -> Endpoint | None:
        """The plugin that this registration takes the place of; PeerError if it may not."""
        offer = self._offers.get(resource)
        before = [e for e in offer.endpoints if e.path == path] if offer is not None else []
        # A plugin that was restarted has made its socket anew; that we have not yet seen the
        # end of its old connection must not keep it out.
        if path in self._connecting or any(e.is_same_server() for e in before):
            raise PeerError(f"device plugin already connected: {path}")
        if offer is None and len(self._offers) >= self._limits.resources:
            raise PeerError(f"too many resources: {len(self._offers)} have plugins already")
        if offer is not None and len(offer.endpoints) >= self._limits.sockets_per_resource:
            raise PeerError(
                f"too many plugins for {resource}: {len(offer.endpoints)} are connected"
            )
        return before[0] if before else None

    async def disconnect(self, resource: str, path: Path) -> None:
        """Ends the connection to a plugin, as when its registration socket was removed."""
        offer = self._offers.get(resource)
        for endpoint in list(offer.endpoints) if offer is not None else ():
            if endpoint.path == path:
                await endpoint.close()

    # Lists of devices, and their end.

    def _watch(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._watching.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Only a bug of ours gets here; the loop's owner decides, and should end the process.
            loop = task.get_loop()
            loop.call_exception_handler({"message": "watching a plugin", "exception": error})

    async def _follow(self, offer: _Offer, endpoint: Endpoint) -> None:
        said: set[str] = set()

        def fault(text: str) -> None:
            if text not in said and len(said) < FAULTS_PER_SOCKET_MAX:
                said.add(text)
                self._report(plugin_events.PluginFault(offer.resource, text))

        def listed(_: wire.DeviceList) -> None:
            offer.source = endpoint
            self._report_devices(offer, endpoint)

        reason = await endpoint.watch(listed, fault)
        await endpoint.close()
        self._lose(offer, endpoint, reason)

    def _report_devices(self, offer: _Offer, endpoint: Endpoint) -> None:
        asked = offer.current
        if endpoint.newest is None or asked is None:
            return
        options = asked.options
        self._report(
            plugin_events.PluginReported(
                offer.resource, endpoint.newest.devices, options.has_preferred, options.prestart
            )
        )

    def _lose(self, offer: _Offer, endpoint: Endpoint, reason: str) -> None:
        offer.endpoints.remove(endpoint)
        offer.stopped = endpoint.path
        left = offer.current
        if left is None:
            offer.source = None
            self._report(plugin_events.PluginGone(offer.resource, reason))
            self._await_return(offer)
        elif offer.source is endpoint and left.newest is not None:
            # The devices of the one that went cannot be had from the one that is left.
            offer.source = left
            self._report_devices(offer, left)

    def _await_return(self, offer: _Offer) -> None:
        loop = asyncio.get_running_loop()
        offer.end = loop.call_later(self._limits.grace_seconds, self._forget, offer.resource)

    def _forget(self, resource: str) -> None:
        del self._offers[resource]
        self._report(plugin_events.PluginForgotten(resource))

    # Calls.

    async def preferred(
        self, resource: str, available: Sequence[str], must: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """The ids among ``available`` that the plugin would choose; () if it does not say."""
        endpoint = self._endpoint(resource, "device plugin GetPreferredAllocation rpc failed")
        if not endpoint.options.has_preferred:
            return ()
        try:
            answer = await endpoint.preferred(available, must, size)
        except (PeerError, WireError) as exc:
            raise _failed("device plugin GetPreferredAllocation rpc failed", exc) from exc
        known = set(available)
        ids = tuple(dict.fromkeys(i for i in answer if i in known))
        if ids != answer or len(ids) != size or not set(must) <= set(ids):
            # The kubelet takes from such an answer what it can use, and so do we.
            text = (
                f"preferred {len(answer)} devices where {size} were asked for, "
                f"{len(answer) - len(ids)} of them not offered; the answer is used where it fits"
            )
            self._report(plugin_events.PluginFault(resource, text))
        return ids

    async def allocate(self, resource: str, ids: Sequence[str]) -> Allocation:
        """What a container needs to use these devices; PeerError with the plugin's words."""
        offer = self._offers.get(resource)
        if offer is None or (offer.current is None and offer.stopped is None):
            raise PeerError(f"unknown Device Plugin {resource}", retry=True)
        if offer.current is None:
            raise PeerError(f"endpoint {offer.stopped} has been stopped", retry=True)
        try:
            return await offer.current.allocate(ids)
        except WireError as exc:
            self._report(
                plugin_events.PluginFault(resource, f"its answer to Allocate is not usable: {exc}")
            )
            raise PeerError(str(exc)) from exc

    async def prestart(self, resource: str, ids: Sequence[str]) -> None:
        """Tells a plugin that wants to know that a container is about to start."""
        endpoint = self._endpoint(resource, "device plugin PreStartContainer rpc failed")
        if not endpoint.options.prestart:
            return
        try:
            await endpoint.prestart(ids)
        except PeerError as exc:
            raise _failed("device plugin PreStartContainer rpc failed", exc) from exc

    def _endpoint(self, resource: str, what: str) -> Endpoint:
        offer = self._offers.get(resource)
        if offer is not None and offer.current is not None:
            return offer.current
        if offer is not None and offer.stopped is not None:
            stopped = PeerError(f"endpoint {offer.stopped} has been stopped", retry=True)
            raise _failed(what, stopped)
        raise PeerError(
            f"endpoint not found in cache for a registered resource: {resource}", retry=True
        )


def _check(request: wire.Registration) -> None:
    if request.version != wire.VERSION:
        raise PeerError(
            f"requested API version {gotext.quoted(request.version)} is not supported by kubelet. "
            f'Supported version is ["{wire.VERSION}"]'
        )
    check_name(request.resource)


def check_name(resource: str) -> None:
    """Refuses a name that no extended resource can have, with the kubelet's words."""
    if not resource_names.is_extended(resource):
        raise PeerError(f"the ResourceName {gotext.quoted(resource)} is invalid")


def _failed(what: str, exc: PeerError | WireError) -> PeerError:
    retry = exc.retry if isinstance(exc, PeerError) else False
    return PeerError(f"{what} with err: {exc}", retry=retry)


def _unheard(_: plugin_events.PluginEvent) -> None:
    """Nobody listens once the plugins are stopped."""
