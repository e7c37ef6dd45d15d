"""Plugins of our own, on real sockets, against the kubelet's side of the protocol."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.adapters.grpc.plugin_peers import (
    LIMITS,
    RESOURCE,
    SHORT,
    Heard,
    Limits,
    Plugin,
    RefusalError,
    device,
    device_list,
    register,
    run,
    stage,
)
from tests.sockets import short_directory

from numalign.adapters.grpc.device_plugins import DevicePlugins
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation, DeviceNode, Mount
from numalign.core.kubelet.devices.plugin_events import (
    PluginForgotten,
    PluginGone,
    PluginRegistered,
    PluginReported,
    RegistrationRefused,
)
from numalign.wire.grpc import device_plugin as wire
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

OPTIONS = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


def test_a_start_removes_old_sockets_only_and_lets_nobody_else_register() -> None:
    async def work() -> None:
        with short_directory() as directory:
            old = directory / "old.sock"
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(old))
            (directory / "kubelet_internal_checkpoint").write_text("{}")
            (directory / "sub").mkdir()
            plugins = DevicePlugins(directory, Heard())
            await plugins.start()
            names = {path.name for path in directory.iterdir()}
            mode = stat.S_IMODE(plugins.socket.stat().st_mode)
            await plugins.stop()
            assert names == {"kubelet.sock", "kubelet_internal_checkpoint", "sub"}
            assert mode == 0o600
            assert not plugins.socket.exists()

    run(work())


def test_the_directory_is_made_for_its_owner_and_group() -> None:
    async def work() -> None:
        async with stage() as on:
            assert stat.S_IMODE(on.directory.stat().st_mode) == 0o750

    run(work())


def test_a_path_that_no_socket_can_have_is_named() -> None:
    async def work() -> None:
        with short_directory() as directory:
            plugins = DevicePlugins(directory / ("x" * 100), Heard())
            with pytest.raises(ConfigError, match="Linux takes at most 107"):
                await plugins.start()

    run(work())


@pytest.mark.parametrize(
    ("resource", "version", "endpoint", "text"),
    [
        (
            RESOURCE,
            "v1alpha1",
            "a.sock",
            'requested API version "v1alpha1" is not supported by kubelet. '
            'Supported version is ["v1beta1"]',
        ),
        ("gpu", "v1beta1", "a.sock", 'the ResourceName "gpu" is invalid'),
        ("kubernetes.io/gpu", "v1beta1", "a", 'the ResourceName "kubernetes.io/gpu" is invalid'),
        ("requests.a/gpu", "v1beta1", "a", 'the ResourceName "requests.a/gpu" is invalid'),
        (
            RESOURCE,
            "v1beta1",
            "nobody.sock",
            "failed to dial device plugin: context deadline exceeded",
        ),
    ],
)
def test_a_registration_is_refused_with_the_kubelets_words(
    resource: str, version: str, endpoint: str, text: str
) -> None:
    async def work() -> None:
        async with stage(SHORT) as on:
            assert await register(on.plugins.socket, endpoint, resource, version) == text
            assert on.heard.events == [RegistrationRefused(resource, text)]

    run(work())


@pytest.mark.parametrize("endpoint", ["", "../a.sock", "x/../../a.sock"])
def test_a_plugin_cannot_point_outside_the_directory(endpoint: str) -> None:
    async def work() -> None:
        async with stage() as on:
            server = await Plugin().serve(on.directory.parent / "a.sock")
            assert "is not the name of a socket in" in await register(on.plugins.socket, endpoint)
            await server.stop(None)

    run(work())


def test_a_plugin_that_refuses_its_options_is_refused() -> None:
    async def refuse(_: bytes) -> bytes:
        raise RefusalError("no options today")

    async def work() -> None:
        async with stage() as on:
            plugin = Plugin(answers={"GetDevicePluginOptions": refuse})
            server = await plugin.serve(on.directory / "a.sock")
            assert await register(on.plugins.socket, "a.sock") == (
                "failed to get device plugin options: "
                "rpc error: code = Unknown desc = no options today"
            )
            await server.stop(None)

    run(work())


def test_each_list_replaces_the_one_before() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin(options=OPTIONS)
            await on.add(plugin)
            assert await on.heard.next(PluginRegistered) == PluginRegistered(RESOURCE, "a.sock")
            plugin.lists.put_nowait(device_list(device("g0", 0), device("g1", 1, 2)))
            first = await on.heard.next(PluginReported)
            assert first == PluginReported(
                RESOURCE, (Device("g0", (0,)), Device("g1", (1, 2))), True, True
            )
            plugin.lists.put_nowait(device_list(device("g2", topology=False), device("g3")))
            second = await on.heard.next(PluginReported)
            assert second.devices == (Device("g2", None), Device("g3", ()))
            plugin.lists.put_nowait(b"")
            assert (await on.heard.next(PluginReported)).devices == ()

    run(work())


def test_only_the_exact_word_is_healthy_and_the_later_of_two_ids_counts() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            words = ["Healthy", "Unhealthy", "healthy", "", "Healthy ", "\u0000"]
            devices = [device(f"g{i}", 0, health=word) for i, word in enumerate(words)]
            plugin.lists.put_nowait(device_list(*devices, device("g0", 1, health="Unhealthy")))
            found = (await on.heard.next(PluginReported)).devices
            assert [d.id for d in found if d.healthy] == []
            plugin.lists.put_nowait(device_list(*devices))
            found = (await on.heard.next(PluginReported)).devices
            assert [d.id for d in found if d.healthy] == ["g0"]

    run(work())


def test_a_plugin_that_ends_takes_its_devices_health_and_may_come_back() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            server = await on.add(plugin)
            plugin.lists.put_nowait(device_list(device("g0", 0)))
            await on.heard.next(PluginReported)
            await server.stop(None)
            gone = await on.heard.next(PluginGone)
            assert gone.resource == RESOURCE
            assert gone.reason.startswith("rpc error: code = ")
            again = Plugin()
            await on.add(again)
            again.lists.put_nowait(device_list(device("g9", 1)))
            assert (await on.heard.next(PluginReported)).devices == (Device("g9", (1,)),)

    run(work())


def test_a_stream_that_ends_well_is_an_end_too() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            plugin.lists.put_nowait(None)
            gone = await on.heard.next(PluginGone)
            assert gone == PluginGone(RESOURCE, "the plugin ended its list of devices")

    run(work())


def test_the_last_list_before_the_end_is_still_reported() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            for message in (device_list(device("g0")), device_list(device("g1")), None):
                plugin.lists.put_nowait(message)
            await on.add(plugin)
            await on.heard.next(PluginGone)
            assert on.heard.all(PluginReported)[-1].devices == (Device("g1", ()),)

    run(work())


def test_a_resource_without_a_plugin_is_forgotten_after_the_grace_period() -> None:
    async def work() -> None:
        async with stage(Limits(grace_seconds=0.2)) as on:
            plugin = Plugin()
            server = await on.add(plugin)
            await server.stop(None)
            await on.heard.next(PluginGone)
            with pytest.raises(PeerError, match=r"endpoint .*a\.sock has been stopped"):
                await on.plugins.allocate(RESOURCE, ["g0"])
            assert await on.heard.next(PluginForgotten) == PluginForgotten(RESOURCE)
            with pytest.raises(PeerError, match=f"^unknown Device Plugin {RESOURCE}$"):
                await on.plugins.allocate(RESOURCE, ["g0"])

    run(work())


def test_a_resource_of_the_checkpoint_waits_for_its_plugin() -> None:
    async def work() -> None:
        with short_directory() as directory:
            heard = Heard()
            plugins = DevicePlugins(directory, heard, limits=Limits(grace_seconds=0.5))
            await plugins.start(known=[RESOURCE, "vendor.com/gone"])
            server = await Plugin().serve(directory / "a.sock")
            assert await register(plugins.socket, "a.sock") == ""
            assert await heard.next(PluginForgotten) == PluginForgotten("vendor.com/gone")
            await asyncio.sleep(0.1)
            await plugins.stop()
            await server.stop(None)
            assert len(heard.all(PluginForgotten)) == 1

    run(work())


# Several plugins for one resource, as in 1.37.


def test_a_rolling_update_never_drops_the_resource() -> None:
    async def work() -> None:
        async with stage() as on:
            old, new = Plugin(), Plugin()
            old_server = await on.add(old, "a.sock")
            old.lists.put_nowait(device_list(device("g0"), device("g1")))
            await on.heard.next(PluginReported)
            new_server = await on.add(new, "b.sock")
            new.lists.put_nowait(device_list(device("g0"), device("g1"), device("g2")))
            assert len((await on.heard.next(PluginReported)).devices) == 3
            await old_server.stop(None)
            with pytest.raises(PeerError, match="no containers return"):
                await on.plugins.allocate(RESOURCE, ["g2"])
            assert new.asked[-1][0] == "Allocate"
            assert on.heard.all(PluginGone) == []
            await new_server.stop(None)
            await on.heard.next(PluginGone)

    run(work())


def test_when_the_newer_plugin_goes_the_older_one_takes_over_with_its_own_list() -> None:
    async def work() -> None:
        async with stage() as on:
            old, new = Plugin(options=OPTIONS), Plugin()
            await on.add(old, "a.sock")
            old.lists.put_nowait(device_list(device("g0")))
            await on.heard.next(PluginReported)
            new_server = await on.add(new, "b.sock")
            new.lists.put_nowait(device_list(device("g1")))
            await on.heard.next(PluginReported)
            await new_server.stop(None)
            back = await on.heard.next(PluginReported)
            assert back == PluginReported(RESOURCE, (Device("g0", ()),), True, True)

    run(work())


def test_a_second_registration_of_a_live_socket_is_refused_and_the_first_stays() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            server = await on.add(plugin)
            text = f"device plugin already connected: {on.directory / 'a.sock'}"
            assert await register(on.plugins.socket, "a.sock") == text
            plugin.lists.put_nowait(device_list(device("g0")))
            assert (await on.heard.next(PluginReported)).devices == (Device("g0", ()),)
            await server.stop(None)
            await on.heard.next(PluginGone)
            await on.add(Plugin())

    run(work())


def test_a_plugin_that_made_its_socket_anew_is_taken_although_the_old_one_still_talks() -> None:
    async def work() -> None:
        async with stage() as on:
            old, new = Plugin(), Plugin()
            await on.add(old)
            old.lists.put_nowait(device_list(device("g0")))
            await on.heard.next(PluginReported)
            await on.add(new)
            new.lists.put_nowait(device_list(device("g1")))
            assert (await on.heard.next(PluginReported)).devices == (Device("g1", ()),)
            assert on.heard.all(PluginGone) == []

    run(work())


# Calls.


def _allocated(request: bytes) -> bytes:
    ids = pb.AllocateRequest.FromString(request).container_requests[0].devices_ids
    one = pb.ContainerAllocateResponse(
        envs={"B": "2", "A": ",".join(ids)},
        mounts=[pb.Mount(container_path="/in", host_path="/out", read_only=True)],
        devices=[pb.DeviceSpec(container_path="/dev/x", host_path="/dev/null", permissions="rw")],
        annotations={"k": "v"},
        cdi_devices=[pb.CDIDevice(name="vendor.com/gpu=g0")],
    )
    return pb.AllocateResponse(container_responses=[one]).SerializeToString()


def test_allocate_gives_everything_that_a_container_needs() -> None:
    async def answer(request: bytes) -> bytes:
        return _allocated(request)

    async def work() -> None:
        async with stage() as on:
            await on.add(Plugin(answers={"Allocate": answer}))
            found = await on.plugins.allocate(RESOURCE, ["g1", "g0"])
            assert found == Allocation(
                {"A": "g1,g0", "B": "2"},
                (Mount("/in", "/out", True),),
                (DeviceNode("/dev/x", "/dev/null", "rw"),),
                {"k": "v"},
                ("vendor.com/gpu=g0",),
                found.response,
            )
            assert wire.saved_allocation_of(found.response) == found

    run(work())


def test_a_refused_allocation_reads_as_in_go() -> None:
    async def refuse(_: bytes) -> bytes:
        raise RefusalError("g0 is on fire", grpc.StatusCode.INVALID_ARGUMENT)

    async def work() -> None:
        async with stage() as on:
            await on.add(Plugin(answers={"Allocate": refuse}))
            with pytest.raises(PeerError) as caught:
                await on.plugins.allocate(RESOURCE, ["g0"])
            assert str(caught.value) == "rpc error: code = InvalidArgument desc = g0 is on fire"
            assert not caught.value.retry

    run(work())


def test_the_plugin_is_asked_for_its_preference_only_if_it_offers_one() -> None:
    async def answer(request: bytes) -> bytes:
        one = pb.PreferredAllocationRequest.FromString(request).container_requests[0]
        assert (one.must_include_deviceIDs, one.allocation_size) == (["g2"], 2)
        chosen = pb.ContainerPreferredAllocationResponse(deviceIDs=["g2", "g1"])
        return pb.PreferredAllocationResponse(container_responses=[chosen]).SerializeToString()

    async def work() -> None:
        async with stage() as on:
            plain, choosy = Plugin(), Plugin(OPTIONS, answers={"GetPreferredAllocation": answer})
            await on.add(plain, "a.sock")
            asked = (RESOURCE, ("g0", "g1", "g2"), ("g2",), 2)
            assert await on.plugins.preferred(*asked) == ()
            await on.plugins.prestart(RESOURCE, ["g0"])
            assert [method for method, _ in plain.asked] == ["GetDevicePluginOptions"]
            await on.add(choosy, "b.sock")
            assert await on.plugins.preferred(*asked) == ("g2", "g1")
            await on.plugins.prestart(RESOURCE, ["g0"])
            assert choosy.asked[-1] == ("PreStartContainer", wire.pre_start_request(["g0"]))

    run(work())


def test_calls_for_a_resource_without_any_plugin_say_so() -> None:
    async def work() -> None:
        async with stage() as on:
            text = f"endpoint not found in cache for a registered resource: {RESOURCE}"
            with pytest.raises(PeerError, match=text):
                await on.plugins.preferred(RESOURCE, ["g0"], [], 1)
            with pytest.raises(PeerError, match=text):
                await on.plugins.prestart(RESOURCE, ["g0"])

    run(work())


def test_failed_calls_carry_the_kubelets_words() -> None:
    async def refuse(_: bytes) -> bytes:
        raise RefusalError("busy", grpc.StatusCode.UNAVAILABLE)

    async def work() -> None:
        async with stage() as on:
            answers = {"GetPreferredAllocation": refuse, "PreStartContainer": refuse}
            await on.add(Plugin(OPTIONS, answers=answers))
            because = "rpc failed with err: rpc error: code = Unavailable desc = busy"
            with pytest.raises(PeerError, match=f"device plugin GetPreferredAllocation {because}"):
                await on.plugins.preferred(RESOURCE, ["g0"], [], 1)
            with pytest.raises(PeerError, match=f"device plugin PreStartContainer {because}"):
                await on.plugins.prestart(RESOURCE, ["g0"])

    run(work())


def test_stopping_ends_everything_without_a_word() -> None:
    async def work() -> None:
        with short_directory() as directory:
            heard = Heard()
            plugins = DevicePlugins(directory, heard, limits=LIMITS)
            await plugins.start()
            server = await Plugin().serve(directory / "a.sock")
            assert await register(plugins.socket, "a.sock") == ""
            await plugins.stop()
            assert heard.all(PluginGone) == []
            assert [path.name for path in _files(directory)] == ["a.sock"]
            await server.stop(None)

    run(work())


def test_nothing_is_reported_once_stopping_has_begun() -> None:
    async def never(_: bytes) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> None:
        async with stage(Limits()) as on:
            plugin, slow = Plugin(), Plugin(answers={"GetDevicePluginOptions": never})
            await on.add(plugin)
            server = await slow.serve(on.directory / "slow.sock")
            asked = asyncio.create_task(register_and_fail(on.plugins.socket, "slow.sock"))
            while not slow.asked:
                await asyncio.sleep(0.005)
            # The open registration holds up the end, and meanwhile the other plugin speaks.
            stopping = asyncio.create_task(on.plugins.stop())
            await asyncio.sleep(0.05)
            plugin.lists.put_nowait(device_list(device("g0")))
            await stopping
            await asked
            assert [type(event) for event in on.heard.events] == [PluginRegistered]
            await server.stop(None)

    run(work())


async def register_and_fail(path: Path, endpoint: str) -> None:
    """Registers with a server that ends under the call."""
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(wire.REGISTER)
        request = pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=RESOURCE)
        with pytest.raises(grpc.aio.AioRpcError):
            await call(request.SerializeToString(), timeout=10)


def _files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())
