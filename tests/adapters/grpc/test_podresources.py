"""Clients on real sockets against the PodResources server."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.adapters.grpc.plugin_peers import run
from tests.sockets import short_directory

from numalign.adapters.grpc import unix as unix_grpc
from numalign.adapters.grpc.podresources import Call, PodResources
from numalign.core.kubelet.state import Block
from numalign.core.views.podresources import Allocatable, ContainerView, DeviceUse, PodView, View
from numalign.wire.grpc._generated import podresources_v1_pb2 as v1
from numalign.wire.grpc._generated import podresources_v1alpha1_pb2 as v1alpha1

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

POD = PodView("db", "default", apps=(ContainerView("db", (2, 3)),))
VIEW = View((POD,), Allocatable((1, 2, 3)), (PodView("old", "default"),))


class Client:
    """The four methods, as any client calls them."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def _call(self, method, request, kind):
        data = await self._channel.unary_unary(method)(request.SerializeToString(), timeout=5)
        return kind.FromString(data)

    async def list(self):
        request = v1.ListPodResourcesRequest()
        return await self._call("/v1.PodResourcesLister/List", request, v1.ListPodResourcesResponse)

    async def get(self, namespace, name):
        request = v1.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        return await self._call("/v1.PodResourcesLister/Get", request, v1.GetPodResourcesResponse)

    async def allocatable(self):
        request, kind = v1.AllocatableResourcesRequest(), v1.AllocatableResourcesResponse
        return await self._call("/v1.PodResourcesLister/GetAllocatableResources", request, kind)

    async def list_v1alpha1(self):
        request, kind = v1alpha1.ListPodResourcesRequest(), v1alpha1.ListPodResourcesResponse
        return await self._call("/v1alpha1.PodResourcesLister/List", request, kind)


@asynccontextmanager
async def served(view=VIEW, calls=None) -> AsyncIterator[tuple[Path, Client]]:
    with short_directory() as directory:
        path = directory / "pod-resources" / "kubelet.sock"
        heard = [] if calls is None else calls
        server = PodResources(path, lambda: view, counted=heard.append)
        await server.start()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        try:
            async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
                yield path, Client(channel)
        finally:
            await server.stop()


def test_every_method_answers_and_is_counted():
    async def work():
        calls: list[Call] = []
        async with served(calls=calls) as (_, client):
            (pod,) = (await client.list()).pod_resources
            assert (pod.name, list(pod.containers[0].cpu_ids)) == ("db", [2, 3])
            assert (await client.get("default", "db")).pod_resources == pod
            assert list((await client.allocatable()).cpu_ids) == [1, 2, 3]
            old = await client.list_v1alpha1()
            assert [p.name for p in old.pod_resources] == ["db", "old"]
            assert calls == [
                Call("v1", "list"),
                Call("v1", "get"),
                Call("v1", "get_allocatable"),
                Call("v1alpha1", "list"),
            ]

    run(work())


def test_a_pod_that_is_not_there_is_told_with_the_kubelets_words():
    async def work():
        calls: list[Call] = []
        async with served(calls=calls) as (_, client):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.get("default", "old")
            assert caught.value.code() is grpc.StatusCode.UNKNOWN
            assert caught.value.details() == "pod old in namespace default not found"
            assert calls == [Call("v1", "get", failed=True)]

    run(work())


def test_the_socket_is_for_its_owner_only_and_takes_the_place_of_an_old_one():
    async def work():
        with short_directory() as directory:
            path = directory / "kubelet.sock"
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))
            server = PodResources(path, View)
            await server.start()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert [found.name for found in directory.iterdir()] == ["kubelet.sock"]
            later = PodResources(path, View)
            await later.start()
            await server.stop()
            assert path.exists(), "the end of the first must not take the socket of the second"
            await later.stop()
            assert not path.exists()

    run(work())


def test_calls_beyond_the_rate_are_rejected_and_not_counted():
    async def work():
        calls: list[Call] = []
        async with served(calls=calls) as (_, client):
            done = await asyncio.gather(*(client.list() for _ in range(60)), return_exceptions=True)
            refused = [e for e in done if isinstance(e, grpc.aio.AioRpcError)]
            assert len(refused) + len(calls) == 60
            assert len(calls) >= 10
            assert {e.code() for e in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert {e.details() for e in refused} == {"rejected by rate limit"}
            await asyncio.sleep(0.05)
            await client.list()

    run(work())


def test_garbage_and_bombs_are_refused_and_the_next_call_is_answered():
    async def work():
        async with served() as (path, client):
            async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
                get = channel.unary_unary("/v1.PodResourcesLister/Get")
                for data in (b"\xff", b"\x0a\x80\x80\x40" + b"x" * (1 << 20)):
                    with pytest.raises(grpc.aio.AioRpcError):
                        await get(data, timeout=5)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary("/v1.PodResourcesLister/Nothing")(b"", timeout=5)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET / HTTP/1.1\r\n\r\n" + b"\0" * 100_000)
            assert await reader.read(1) is not None
            writer.close()
            assert len((await client.list()).pod_resources) == 1

    run(work())


def _large() -> View:
    uses = tuple(DeviceUse("v/g", f"device-{i:060}", i % 8) for i in range(60))
    memory = (Block((0,), "memory", 1 << 30),)
    one = ContainerView("app", tuple(range(8)), memory, uses)
    return View(tuple(PodView(f"pod-{i}", "default", apps=(one,)) for i in range(50)))


def _unread_call() -> bytes:
    """HTTP/2 by hand: a List call of a client that allows no byte of answer to be sent."""

    def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
        return (
            len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
        )

    def header(name: str, value: str) -> bytes:
        pair = (name.encode(), value.encode())
        return b"\0" + b"".join(bytes([len(text)]) + text for text in pair)

    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1.PodResourcesLister/List"),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    block = b"".join(header(name, value) for name, value in headers)
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(4, 0, 0, window)
        + frame(1, 4, 1, block)
        + frame(0, 1, 1, b"\0" * 5)
    )


async def refusal(client: Client) -> str:
    try:
        await client.list()
    except grpc.aio.AioRpcError as exc:
        return exc.details() or "without a word"
    return ""


@asynccontextmanager
async def deaf(path: Path, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Clients that have asked and allow no answer to be sent."""
    connections = [await asyncio.open_unix_connection(path) for _ in range(count)]
    for _, writer in connections:
        writer.write(_unread_call())
        await writer.drain()
    yield [reader for reader, _ in connections]
    for _, writer in connections:
        writer.close()


def test_clients_that_never_read_are_given_up_and_others_are_served(monkeypatch):
    monkeypatch.setattr(unix_grpc, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setattr(unix_grpc, "CALLS_MAX", 4)

    async def work():
        async with served(_large()) as (path, client), AsyncExitStack() as connected:
            # On a busy machine they may have been given up before anybody asks: then come more.
            while await refusal(client) != unix_grpc.TOO_MANY_CALLS:
                await connected.enter_async_context(deaf(path, 4))
            while await refusal(client) != "":
                await asyncio.sleep(0.02)

    run(work())


def test_the_connection_of_a_client_that_never_reads_ends_by_its_age(monkeypatch):
    monkeypatch.setattr(unix_grpc, "ANSWER_SECONDS_MAX", 0.2)
    monkeypatch.setattr(unix_grpc, "CONNECTION_SECONDS_MAX", 0.5)

    async def work():
        async with served(_large()) as (path, _), deaf(path, 1) as (reader,):
            await reader.read()  # to its end

    run(work())
