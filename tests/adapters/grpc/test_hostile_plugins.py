"""Plugins that hang, lie, flood or send bombs: each ends in a clear event and a living agent."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.adapters.grpc.plugin_peers import (
    LIMITS,
    RESOURCE,
    SHORT,
    Limits,
    Plugin,
    Stage,
    device,
    device_list,
    register,
    run,
    stage,
)

from numalign.core.errors import PeerError
from numalign.core.kubelet.devices.devices import Device, device_resource
from numalign.core.kubelet.devices.plugin_events import PluginFault, PluginGone, PluginReported
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

OPTIONS = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
DEADLINE = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def _never(_: bytes) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


async def _report_one(on: Stage, plugin: Plugin) -> None:
    """The plugin is still connected: what it says of a device is heard."""
    plugin.lists.put_nowait(device_list(device("g0")))
    await on.heard.next(PluginReported)


def test_calls_to_a_plugin_that_hangs_end_in_time_and_it_stays_connected() -> None:
    async def work() -> None:
        # Options are for every plugin to give: only the calls after it are short.
        async with stage(replace(SHORT, options_seconds=LIMITS.options_seconds)) as on:
            names = ("Allocate", "GetPreferredAllocation", "PreStartContainer")
            plugin = Plugin(OPTIONS, answers=dict.fromkeys(names, _never))
            await on.add(plugin)
            with pytest.raises(PeerError, match=f"^{DEADLINE}$") as caught:
                await on.plugins.allocate(RESOURCE, ["g0"])
            assert caught.value.retry
            with pytest.raises(PeerError, match=DEADLINE):
                await on.plugins.preferred(RESOURCE, ["g0"], [], 1)
            with pytest.raises(PeerError, match=DEADLINE):
                await on.plugins.prestart(RESOURCE, ["g0"])
            await _report_one(on, plugin)

    run(work())


def test_a_plugin_that_hangs_while_it_registers_keeps_nobody_waiting() -> None:
    async def work() -> None:
        async with stage(replace(LIMITS, options_seconds=2.0)) as on:
            slow = Plugin(answers={"GetDevicePluginOptions": _never})
            server = await slow.serve(on.directory / "slow.sock")
            hanging = asyncio.create_task(register(on.plugins.socket, "slow.sock"))
            await on.add(Plugin(), "quick.sock")
            assert await hanging == f"failed to get device plugin options: {DEADLINE}"
            await server.stop(None)

    run(work())


def test_a_socket_that_accepts_and_says_nothing_is_given_up() -> None:
    async def work() -> None:
        async with stage(SHORT) as on:
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.bind(str(on.directory / "deaf.sock"))
                deaf.listen()
                text = await register(on.plugins.socket, "deaf.sock")
            assert text == "failed to dial device plugin: context deadline exceeded"

    run(work())


def test_a_plugin_that_floods_is_slowed_and_its_newest_list_counts() -> None:
    async def flood(context: Any) -> None:
        for number in range(300):
            await context.write(device_list(device("g0", number % 2), device(f"n{number}")))
        await asyncio.Event().wait()

    async def work() -> None:
        async with stage(Limits(lists_per_second=100)) as on:
            await on.add(Plugin(stream=flood))
            began = time.monotonic()
            while True:
                last = await on.heard.next(PluginReported)
                if last.devices[1].id == "n299":
                    break
            took = time.monotonic() - began
            assert took > 1.5
            assert len(on.heard.all(PluginReported)) <= took / LIMITS.list_pause_seconds + 2
            faults = on.heard.all(PluginFault)
            text = "more than 100 lists a second; it is read more slowly"
            assert faults == [PluginFault(RESOURCE, text)]

    run(work())


def test_the_same_list_again_is_no_news() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            await _report_one(on, plugin)
            for _ in range(3):
                plugin.lists.put_nowait(device_list(device("g0")))
                await asyncio.sleep(2 * LIMITS.list_pause_seconds)
            plugin.lists.put_nowait(device_list(device("g1")))
            assert (await on.heard.next(PluginReported)).devices[0].id == "g1"

    run(work())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            device_list(*(device(f"g{i}") for i in range(10_001))),
            "found 10001 devices, at most 10000 are taken",
        ),
        (
            device_list(device("g0", *range(1_025))),
            "device 'g0': found 1025 NUMA nodes, at most 1024 are taken",
        ),
        (b"\x0a\xff\xff\xff", "4 bytes that are not a ListAndWatchResponse"),
        (b"\x0a\x04\x0a\x02\xff\xfe", "6 bytes that are not a ListAndWatchResponse"),
        (
            device_list(device("g" * (5 << 20))),
            "rpc error: code = ResourceExhausted desc = ",
        ),
    ],
    ids=["devices", "nodes", "truncated", "not text", "5 MiB"],
)
def test_a_list_that_cannot_be_taken_ends_the_connection(message: bytes, reason: str) -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            await _report_one(on, plugin)
            plugin.lists.put_nowait(message)
            gone = await on.heard.next(PluginGone)
            assert gone.reason.startswith(reason)
            await on.add(Plugin(), "b.sock")

    run(work())


def test_ten_thousand_devices_are_taken() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            plugin.lists.put_nowait(device_list(*(device(f"g{i}", i % 8) for i in range(10_000))))
            found = (await on.heard.next(PluginReported)).devices
            assert len(device_resource(found).ids) == 10_000

    run(work())


def test_a_numa_node_beyond_all_machines_is_left_out_and_told() -> None:
    async def work() -> None:
        async with stage() as on:
            plugin = Plugin()
            await on.add(plugin)
            plugin.lists.put_nowait(device_list(device("g0", 1, 2**62), device("g1", -5)))
            found = await on.heard.next(PluginFault)
            assert "NUMA node 4611686018427387904 is left out" in found.text
            reported = await on.heard.next(PluginReported)
            assert reported.devices == (Device("g0", (1,)), Device("g1", (-5,)))
            assert device_resource(reported.devices).places == ((2, 1),)

    run(work())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (["g1", "nobody", "g1"], ("g1",)),
        (["g0", "g1", "g2"], ("g0", "g1", "g2")),
        (["g0", "g1"], ("g0", "g1")),
        ([], ()),
    ],
    ids=["unknown and twice", "too many", "without what it must include", "none"],
)
def test_a_preference_that_lies_is_used_where_it_fits(
    answer: list[str], expected: tuple[str, ...]
) -> None:
    async def lie(_: bytes) -> bytes:
        one = pb.ContainerPreferredAllocationResponse(deviceIDs=answer)
        return pb.PreferredAllocationResponse(container_responses=[one]).SerializeToString()

    async def work() -> None:
        async with stage() as on:
            await on.add(Plugin(OPTIONS, answers={"GetPreferredAllocation": lie}))
            found = await on.plugins.preferred(RESOURCE, ["g0", "g1", "g2"], ["g2"], 2)
            assert found == expected
            assert (await on.heard.next(PluginFault)).text.startswith(f"preferred {len(answer)} ")

    run(work())


def _one(**fields: Any) -> bytes:
    one = pb.ContainerAllocateResponse(**fields)
    return pb.AllocateResponse(container_responses=[one]).SerializeToString()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "^no containers return in allocation response $"),
        (b"\xff", "1 bytes that are not a AllocateResponse"),
        (_one(envs={"A=B": "c"}), "the environment variable 'A=B', which cannot be set"),
        (_one(envs={"A": "c\0d"}), "the environment variable 'A', which cannot be set"),
        (_one(mounts=[pb.Mount(host_path="/x")]), "the path '' from '/x'"),
        (_one(envs={"A": "x" * (5 << 20)}), "^rpc error: code = ResourceExhausted desc = "),
    ],
    ids=["nothing", "garbage", "name", "zero byte", "path", "5 MiB"],
)
def test_an_allocation_that_nobody_could_carry_out_is_refused(answer: bytes, text: str) -> None:
    async def lie(_: bytes) -> bytes:
        return answer

    async def work() -> None:
        async with stage() as on:
            plugin = Plugin(answers={"Allocate": lie})
            await on.add(plugin)
            with pytest.raises(PeerError, match=text):
                await on.plugins.allocate(RESOURCE, ["g0"])
            await _report_one(on, plugin)

    run(work())


def test_a_refusal_of_a_million_words_is_cut() -> None:
    async def work() -> None:
        async with stage() as on:

            async def refuse(_: bytes) -> bytes:
                raise AssertionError("x" * 7_000)

            await on.add(Plugin(answers={"Allocate": refuse}))
            with pytest.raises(PeerError) as caught:
                await on.plugins.allocate(RESOURCE, ["g0"])
            assert len(str(caught.value)) < 2_100

    run(work())


def test_a_plugin_that_goes_during_a_call_fails_the_call() -> None:
    async def work() -> None:
        async with stage(Limits()) as on:
            plugin = Plugin(answers={"Allocate": _never})
            server = await on.add(plugin)
            asked = asyncio.create_task(on.plugins.allocate(RESOURCE, ["g0"]))
            while ("Allocate") not in [method for method, _ in plugin.asked]:
                await asyncio.sleep(0.005)
            await server.stop(None)
            with pytest.raises(PeerError, match="rpc error: code = "):
                await asked
            await on.heard.next(PluginGone)

    run(work())


def test_a_registration_of_a_megabyte_is_refused_and_the_next_one_is_taken() -> None:
    async def work() -> None:
        async with stage() as on:
            async with grpc.aio.insecure_channel(f"unix:{on.plugins.socket}") as channel:
                call = channel.unary_unary("/v1beta1.Registration/Register")
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(b"\x0a\x80\x80\x40" + b"x" * (1 << 20))
                assert "message larger than max" in (caught.value.details() or "")
            assert on.heard.events == []
            await on.add(Plugin())

    run(work())


def test_more_resources_or_plugins_than_the_limit_are_refused() -> None:
    async def work() -> None:
        async with stage(Limits(resources=1, sockets_per_resource=1)) as on:
            await on.add(Plugin(), "a.sock")
            server = await Plugin().serve(on.directory / "b.sock")
            text = await register(on.plugins.socket, "b.sock", "vendor.com/other")
            assert text == "too many resources: 1 have plugins already"
            text = await register(on.plugins.socket, "b.sock")
            assert text == f"too many plugins for {RESOURCE}: 1 are connected"
            await server.stop(None)

    run(work())
