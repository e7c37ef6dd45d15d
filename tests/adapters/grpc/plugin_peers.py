"""Device plugins of our own on real sockets: well-behaved, silent, lying and flooding ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from tests.sockets import short_directory

from numalign.adapters.grpc.device_plugins import DevicePlugins
from numalign.adapters.grpc.plugin_endpoint import Limits
from numalign.core.kubelet.devices.plugin_events import PluginEvent
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb
from numalign.wire.grpc._generated.pluginregistration_v1_pb2 import PluginInfo, RegistrationStatus

# For plugins that answer, however busy the machine is.
LIMITS = Limits(
    dial_seconds=15.0, options_seconds=15.0, preferred_seconds=15.0, allocate_seconds=15.0,
    prestart_seconds=15.0,
)  # fmt: skip
# For plugins that do not.
SHORT = Limits(
    dial_seconds=1.0, options_seconds=0.5, preferred_seconds=0.5, allocate_seconds=0.5,
    prestart_seconds=0.5,
)  # fmt: skip
RESOURCE = "vendor.com/gpu"


def device(name: str, *nodes: int, health: str = "Healthy", topology: bool = True) -> pb.Device:
    where = pb.TopologyInfo(nodes=[pb.NUMANode(ID=n) for n in nodes]) if topology else None
    return pb.Device(ID=name, health=health, topology=where)


def device_list(*devices: pb.Device) -> bytes:
    return pb.ListAndWatchResponse(devices=devices).SerializeToString()


@dataclass
class Plugin:
    """A plugin whose every answer can be replaced; it sends what is put into ``lists``."""

    options: pb.DevicePluginOptions = field(default_factory=pb.DevicePluginOptions)
    lists: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    answers: dict[str, Callable[[bytes], Awaitable[bytes]]] = field(default_factory=dict)
    asked: list[tuple[str, bytes]] = field(default_factory=list)
    stream: Callable[[Any], Awaitable[None]] | None = None
    info: PluginInfo | None = None  # for the plugin watcher
    told: list[tuple[bool, str]] = field(default_factory=list)  # by the plugin watcher
    server: grpc.aio.Server | None = None  # kept: a server that nobody holds is shut down

    async def _unary(self, method: str, request: bytes, context: Any) -> bytes:
        self.asked.append((method, request))
        if method in self.answers:
            try:
                return await self.answers[method](request)
            except RefusalError as exc:
                await context.abort(exc.code, exc.text)
        if method == "GetDevicePluginOptions":
            return self.options.SerializeToString()
        return b""

    async def _list_and_watch(self, _: bytes, context: Any) -> None:
        if self.stream is not None:
            return await self.stream(context)
        while (message := await self.lists.get()) is not None:
            await context.write(message)
        return None

    async def _get_info(self, _: bytes, context: Any) -> bytes:
        assert self.info is not None
        return self.info.SerializeToString()

    async def _notify(self, request: bytes, _: Any) -> bytes:
        status = RegistrationStatus.FromString(request)
        self.told.append((status.plugin_registered, status.error))
        return b""

    async def serve(self, path: Path) -> grpc.aio.Server:
        def unary(method: str) -> Any:
            async def handle(request: bytes, context: Any) -> bytes:
                return await self._unary(method, request, context)

            return grpc.unary_unary_rpc_method_handler(handle)

        names = ["GetDevicePluginOptions", "GetPreferredAllocation", "Allocate"]
        methods = {name: unary(name) for name in [*names, "PreStartContainer"]}
        methods["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(self._list_and_watch)
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
        handlers = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)
        server.add_generic_rpc_handlers((handlers,))
        if self.info is not None:
            asked = {"GetInfo": self._get_info, "NotifyRegistrationStatus": self._notify}
            found = {k: grpc.unary_unary_rpc_method_handler(v) for k, v in asked.items()}
            watched = grpc.method_handlers_generic_handler("pluginregistration.Registration", found)
            server.add_generic_rpc_handlers((watched,))
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self.server = server
        return server


class RefusalError(Exception):
    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


async def register(
    socket: Path, endpoint: str, resource: str = RESOURCE, version: str = "v1beta1"
) -> str:
    """Registers like a plugin; gives the text of a refusal, "" for none."""
    request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
    async with grpc.aio.insecure_channel(
        f"unix:{socket}", options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        call = channel.unary_unary("/v1beta1.Registration/Register")
        try:
            await call(request.SerializeToString(), timeout=30)
        except grpc.aio.AioRpcError as exc:
            assert exc.code() is grpc.StatusCode.UNKNOWN, exc
            return exc.details() or ""
    return ""


class Heard:
    """All events so far, and waiting for the next of a kind."""

    def __init__(self) -> None:
        self.events: list[PluginEvent] = []
        self._taken = 0

    def __call__(self, event: PluginEvent) -> None:
        self.events.append(event)

    async def next(self, kind: type[Any], seconds: float = 30.0) -> Any:
        """The next event of this kind, those before it passed over."""
        async with asyncio.timeout(seconds):
            while True:
                while self._taken < len(self.events):
                    event = self.events[self._taken]
                    self._taken += 1
                    if isinstance(event, kind):
                        return event
                await asyncio.sleep(0.005)

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Stage:
    """Our side and a directory for plugins."""

    directory: Path
    plugins: DevicePlugins
    heard: Heard
    added: list[Plugin] = field(default_factory=list)

    async def add(self, plugin: Plugin, name: str = "a.sock") -> grpc.aio.Server:
        """Serves and registers a plugin."""
        self.added.append(plugin)
        server = await plugin.serve(self.directory / name)
        assert await register(self.plugins.socket, name) == ""
        return server


@asynccontextmanager
async def stage(limits: Limits = LIMITS) -> AsyncIterator[Stage]:
    with short_directory() as directory:
        heard = Heard()
        plugins = DevicePlugins(directory / "dp", heard, limits=limits)
        await plugins.start()
        on = Stage(directory / "dp", plugins, heard)
        try:
            yield on
        finally:
            await plugins.stop()
            for plugin in on.added:
                if plugin.server is not None:
                    await plugin.server.stop(None)


def run(work: Coroutine[Any, Any, None], seconds: float = 90) -> None:
    """Runs a test to its end, within a time that no test may need."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(bounded())
