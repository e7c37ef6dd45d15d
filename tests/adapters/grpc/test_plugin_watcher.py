"""Plugins that register by putting a socket into a watched directory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.adapters.grpc.plugin_peers import (
    RESOURCE,
    Plugin,
    Stage,
    device,
    device_list,
    run,
    stage,
)

from numalign.adapters.grpc.plugin_watcher import PluginWatcher
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_events import (
    PluginGone,
    PluginReported,
    RegistrationRefused,
)
from numalign.wire.grpc._generated.pluginregistration_v1_pb2 import PluginInfo

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


def info(kind: str = "DevicePlugin", name: str = RESOURCE, version: str = "v1beta1") -> PluginInfo:
    return PluginInfo(type=kind, name=name, supported_versions=[version])


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[Stage, Path]]:
    async with stage() as on:
        registry = on.directory.parent / "r"
        watcher = PluginWatcher(registry, on.plugins, on.heard, look_seconds=0.02)
        await watcher.start()
        try:
            yield on, registry
        finally:
            await watcher.stop()


async def until(fact) -> None:
    while not fact():
        await asyncio.sleep(0.01)


def test_a_socket_in_the_directory_is_registered_told_and_let_go_with_its_file() -> None:
    async def work() -> None:
        async with watched() as (on, registry):
            (registry / "deep").mkdir()
            path = registry / "deep" / "a.sock"
            plugin = Plugin(info=info())
            plugin.lists.put_nowait(device_list(device("g0", 1)))
            server = await plugin.serve(path)
            assert (await on.heard.next(PluginReported)).devices == (Device("g0", (1,)),)
            await until(lambda: plugin.told)
            assert plugin.told == [(True, "")]
            path.unlink()
            await on.heard.next(PluginGone)
            await server.stop(None)
            again = Plugin(info=info())
            again.lists.put_nowait(device_list(device("g1")))
            server = await again.serve(path)
            assert (await on.heard.next(PluginReported)).devices == (Device("g1", ()),)
            await server.stop(None)

    run(work())


def test_a_plugin_may_serve_devices_on_another_socket() -> None:
    async def work() -> None:
        async with watched() as (on, registry):
            own = Plugin()
            own.lists.put_nowait(device_list(device("g0")))
            first = await own.serve(on.directory / "own.sock")
            said = info()
            said.endpoint = str(on.directory / "own.sock")
            second = await Plugin(info=said).serve(registry / "a.sock")
            await on.heard.next(PluginReported)
            await first.stop(None)
            await second.stop(None)

    run(work())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            info(version="v1alpha1"),
            "manager version, v1beta1, is not among plugin supported versions [v1alpha1]",
        ),
        (
            info(name="gpu"),
            'invalid name of device plugin socket: the ResourceName "gpu" is invalid',
        ),
    ],
)
def test_a_plugin_is_told_why_it_is_refused(said: PluginInfo, text: str) -> None:
    async def work() -> None:
        async with watched() as (on, registry):
            plugin = Plugin(info=said)
            server = await plugin.serve(registry / "a.sock")
            await until(lambda: plugin.told)
            assert plugin.told == [(False, text)]
            assert on.heard.events == [RegistrationRefused(said.name, f"a.sock: {text}")]
            await server.stop(None)

    run(work())


def test_drivers_of_other_kinds_files_and_hidden_sockets_are_left_alone() -> None:
    async def work() -> None:
        async with watched() as (on, registry):
            driver, hidden = Plugin(info=info("CSIPlugin")), Plugin(info=info())
            servers = [await driver.serve(registry / "csi.sock")]
            servers.append(await hidden.serve(registry / ".a.sock"))
            (registry / "file").write_text("x")
            plugin = Plugin(info=info())
            plugin.lists.put_nowait(device_list(device("g0")))
            servers.append(await plugin.serve(registry / "z.sock"))
            await on.heard.next(PluginReported)
            assert (driver.told, hidden.told) == ([], [])
            assert on.heard.all(RegistrationRefused) == []
            for server in servers:
                await server.stop(None)

    run(work())


def test_a_socket_that_says_nothing_keeps_no_other_from_registering() -> None:
    async def work() -> None:
        async with watched() as (on, registry):
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.bind(str(registry / "a.sock"))
                deaf.listen()
                plugin = Plugin(info=info())
                plugin.lists.put_nowait(device_list(device("g0")))
                server = await plugin.serve(registry / "b.sock")
                await on.heard.next(PluginReported)
                await server.stop(None)

    run(work())
