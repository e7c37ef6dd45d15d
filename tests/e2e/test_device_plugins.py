"""Real device plugins, written in Go on the official generated API, against our side."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.grpc.plugin_peers import Heard, run
from tests.e2e.peers.build import NUMA_PLUGIN, SAMPLE, Peer, built
from tests.sockets import short_directory

from numalign.adapters.grpc.device_plugins import DevicePlugins
from numalign.adapters.grpc.plugin_watcher import PluginWatcher
from numalign.core.errors import PeerError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import DeviceNode, Mount
from numalign.core.kubelet.devices.plugin_events import (
    PluginGone,
    PluginRegistered,
    PluginReported,
    RegistrationRefused,
)
from numalign.wire.grpc import device_plugin as wire

pytestmark = pytest.mark.e2e

GPU = "vendor.com/gpu"
PROGRAMS: dict[Peer, Path] = {}
# The sample plugin registers at the kubelet's fixed place: give it a view of the host where that
# place is ours.
IN_ITS_OWN_VIEW = """
mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet/device-plugins &&
mount --bind "$OURS" /var/lib/kubelet/device-plugins && exec "$0"
"""


@pytest.fixture(scope="module", autouse=True)
def programs(pytestconfig: pytest.Config) -> None:
    """Builds before the first test, since every test has a time limit."""
    for peer in (NUMA_PLUGIN, SAMPLE):
        PROGRAMS[peer] = built(peer, pytestconfig)


@asynccontextmanager
async def ours() -> AsyncIterator[tuple[Path, DevicePlugins, Heard]]:
    with short_directory() as directory:
        heard = Heard()
        plugins = DevicePlugins(directory, heard)
        await plugins.start()
        try:
            yield directory, plugins, heard
        finally:
            await plugins.stop()


@asynccontextmanager
async def process(*command: str, **env: str) -> AsyncIterator[Process]:
    running = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env={**os.environ, **env}
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


class NumaPlugin:
    """Our Go plugin: orders in, events out."""

    def __init__(self, running: Process) -> None:
        self.process = running
        self.events: list[dict[str, Any]] = []

    def order(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")

    async def said(self, event: str) -> dict[str, Any]:
        """The next event of this name, those before it passed over."""
        assert self.process.stdout is not None
        async with asyncio.timeout(10):
            while True:
                line = await self.process.stdout.readline()
                assert line, f"the plugin ended before it said {event!r}"
                found: dict[str, Any] = json.loads(line)
                if found["event"] == event:
                    return found


@asynccontextmanager
async def numa_plugin(directory: Path, *words: str) -> AsyncIterator[NumaPlugin]:
    async with process(str(PROGRAMS[NUMA_PLUGIN]), str(directory), *words) as running:
        yield NumaPlugin(running)


def test_a_go_plugin_reports_numa_nodes_and_health_and_is_asked_for_devices() -> None:
    async def work() -> None:
        async with (
            ours() as (directory, plugins, heard),
            numa_plugin(directory, GPU, "-prestart", "g0=0", "g1=1", "g2=0,1", "g3=", "g4=-") as go,
        ):
            await go.said("registered")
            first = await heard.next(PluginReported)
            assert first == PluginReported(
                GPU,
                (
                    Device("g0", (0,)),
                    Device("g1", (1,)),
                    Device("g2", (0, 1)),
                    Device("g3", ()),
                    Device("g4", None),
                ),
                has_preferred=True,
                prestart=True,
            )
            go.order("health g1 sick")
            assert not (await heard.next(PluginReported)).devices[1].healthy
            go.order("health g1 healthy")
            assert (await heard.next(PluginReported)).devices[1].healthy
            go.order("devices g7=3")
            assert (await heard.next(PluginReported)).devices == (Device("g7", (3,)),)

            chosen = await plugins.preferred(GPU, ["g0", "g1", "g2"], ["g0"], 2)
            assert chosen == ("g0", "g2")
            asked = await go.said("preferred")
            assert (asked["available"], asked["must"], asked["size"]) == (
                ["g0", "g1", "g2"], ["g0"], 2,
            )  # fmt: skip
            found = await plugins.allocate(GPU, ["g0", "g2"])
            assert (await go.said("allocate"))["ids"] == ["g0", "g2"]
            assert found.envs == {"NUMAPLUGIN_DEVICES": "g0,g2"}
            assert found.annotations == {"numaplugin/count": "2"}
            assert found.devices[0] == DeviceNode("/dev/g0", "/dev/null", "rw")
            assert found.mounts[1] == Mount("/run/g2", "/tmp", read_only=True)
            assert found.cdi_names == ("vendor.com/gpu=g0", "vendor.com/gpu=g2")
            assert wire.saved_allocation_of(found.response) == found
            await plugins.prestart(GPU, ["g0"])
            assert (await go.said("prestart"))["ids"] == ["g0"]

    run(work())


def test_a_refusal_of_a_go_plugin_reads_as_the_kubelet_shows_it() -> None:
    async def work() -> None:
        async with (
            ours() as (directory, plugins, heard),
            numa_plugin(directory, GPU, "g0=0") as go,
        ):
            await heard.next(PluginReported)
            go.order("refuse g0 is on fire")
            await go.said("will refuse")
            with pytest.raises(PeerError) as caught:
                await plugins.allocate(GPU, ["g0"])
            assert str(caught.value) == "rpc error: code = Unknown desc = g0 is on fire"

    run(work())


def test_a_go_plugin_is_told_why_its_registration_is_refused() -> None:
    async def work() -> None:
        async with (
            ours() as (directory, _, heard),
            numa_plugin(directory, "kubernetes.io/gpu", "g0=0") as go,
        ):
            text = 'the ResourceName "kubernetes.io/gpu" is invalid'
            told = (await go.said("refused"))["error"]
            assert told == f"rpc error: code = Unknown desc = {text}"
            assert heard.events == [RegistrationRefused("kubernetes.io/gpu", text)]

    run(work())


def test_a_second_registration_of_a_live_go_plugin_does_it_no_harm() -> None:
    async def work() -> None:
        async with ours() as (directory, _, heard), numa_plugin(directory, GPU, "g0=0") as go:
            await heard.next(PluginReported)
            go.order("register")
            assert "device plugin already connected: " in (await go.said("refused"))["error"]
            go.order("devices g1=1")
            assert (await heard.next(PluginReported)).devices == (Device("g1", (1,)),)
            go.order("stop")
            assert (await heard.next(PluginGone)).resource == GPU

    run(work())


def test_a_killed_go_plugin_is_noticed_at_once_and_its_successor_is_taken() -> None:
    async def work() -> None:
        async with ours() as (directory, _, heard):
            async with numa_plugin(directory, GPU, "g0=0") as go:
                await heard.next(PluginReported)
                go.process.kill()
                began = time.monotonic()
                await heard.next(PluginGone)
                assert time.monotonic() - began < 1
            async with numa_plugin(directory, GPU, "g1=1"):
                assert (await heard.next(PluginReported)).devices == (Device("g1", (1,)),)

    run(work())


def test_a_rolling_update_of_a_go_plugin_never_drops_the_resource() -> None:
    async def work() -> None:
        async with (
            ours() as (directory, plugins, heard),
            numa_plugin(directory, GPU, "-socket", "a.sock", "g0=0", "g1=1") as old,
        ):
            await heard.next(PluginReported)
            async with numa_plugin(
                directory, GPU, "-socket", "b.sock", "g0=0", "g1=1", "g2=0"
            ) as go:
                assert len((await heard.next(PluginReported)).devices) == 3
                old.order("stop")
                await old.process.wait()
                await plugins.allocate(GPU, ["g2"])
                await go.said("allocate")
                assert heard.all(PluginGone) == []
            await heard.next(PluginGone)

    run(work())


def test_a_go_plugin_registers_again_after_our_restart() -> None:
    async def work() -> None:
        with short_directory() as directory:
            first, second = Heard(), Heard()
            plugins = DevicePlugins(directory, first)
            await plugins.start()
            async with numa_plugin(directory, GPU, "g0=0") as go:
                await first.next(PluginReported)
                await plugins.stop()
                again = DevicePlugins(directory, second)
                await again.start(known=[GPU])
                await go.said("socket gone")
                assert (await second.next(PluginReported)).devices == (Device("g0", (0,)),)
                await again.stop()

    run(work())


def test_a_go_plugin_in_the_watched_directory_is_found_told_and_let_go() -> None:
    async def work() -> None:
        async with ours() as (directory, plugins, heard):
            registry = directory / "r"
            watcher = PluginWatcher(registry, plugins, heard, look_seconds=0.05)
            await watcher.start()
            async with numa_plugin(registry, GPU, "-watched", "g0=0") as go:
                assert (await heard.next(PluginReported)).devices == (Device("g0", (0,)),)
                assert (await go.said("notified"))["registered"] is True
                await plugins.allocate(GPU, ["g0"])
                (registry / "vendor.com_gpu.sock").unlink()
                await heard.next(PluginGone)
                await go.said("watch ended")
            async with numa_plugin(registry, "kubernetes.io/gpu", "-watched", "g0=0") as go:
                told = await go.said("notified")
                assert told == {
                    "event": "notified",
                    "registered": False,
                    "error": "invalid name of device plugin socket: "
                    'the ResourceName "kubernetes.io/gpu" is invalid',
                }
            await watcher.stop()

    run(work())


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs unshare")
def test_the_sample_plugin_of_kubernetes_works_and_comes_back_after_our_restart() -> None:
    async def work() -> None:
        sample = str(PROGRAMS[SAMPLE])
        command = ["unshare", "--mount", "sh", "-c", IN_ITS_OWN_VIEW, sample]
        with short_directory() as directory:
            heard = Heard()
            plugins = DevicePlugins(directory, heard)
            await plugins.start()
            env = {"OURS": str(directory), "PLUGIN_SOCK_DIR": "/var/lib/kubelet/device-plugins"}
            async with process(*command, **env):
                registered = await heard.next(PluginRegistered)
                assert registered.resource == "example.com/resource"
                reported = await heard.next(PluginReported)
                assert {d.id for d in reported.devices if d.healthy} == {"Dev-1", "Dev-2"}
                assert (reported.has_preferred, reported.prestart) == (False, False)
                found = await plugins.allocate("example.com/resource", ["Dev-2"])
                assert found.mounts == (Mount("/tmp/Dev-2", "/tmp/Dev-2"),)
                Path("/tmp/Dev-2").unlink()  # made by the plugin, as the device's file
                with pytest.raises(PeerError, match="non-existing device nobody") as caught:
                    await plugins.allocate("example.com/resource", ["nobody"])
                assert str(caught.value).startswith("rpc error: code = Unknown desc = invalid")
                await plugins.stop()

                later = Heard()
                again = DevicePlugins(directory, later)
                await again.start(known=["example.com/resource"])
                # It waits for ten seconds once it has seen the socket made anew.
                assert len((await later.next(PluginReported, seconds=25)).devices) == 2
                await again.stop()

    run(work(), seconds=40)
