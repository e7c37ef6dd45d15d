"""Questions to a container: a command in it, a port, HTTP or gRPC health; each within its time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import grpc
import h11

from numalign.wire.pods.records import (
    ContainerRecord,
    GrpcAction,
    Hook,
    HttpGetAction,
    Probe,
    TcpSocketAction,
)

HOST_DEFAULT: Final = "127.0.0.1"  # processes listen on the host itself
HEAD_BYTES_MAX: Final = 16 * 1024
MESSAGE_CHARS_MAX: Final = 300
_SERVING: Final = b"\x08\x01"  # HealthCheckResponse with status SERVING

RunInside = Callable[[Sequence[str], float], Awaitable[tuple[int, str]]]


async def probe_error(probe: Probe, record: ContainerRecord, inside: RunInside) -> str:
    """Empty if a container is well; else what was found instead."""
    seconds = float(max(probe.timeoutSeconds, 1))
    if probe.exec is not None:
        return await _exec_error(probe.exec.command or [], inside, seconds)
    if probe.httpGet is not None:
        return await _within(_http_error(probe.httpGet, record), seconds)
    if probe.tcpSocket is not None:
        return await _within(_tcp_error(probe.tcpSocket, record), seconds)
    if probe.grpc is not None:
        return await _within(_grpc_error(probe.grpc), seconds)
    return ""


async def hook_error(
    hook: Hook, record: ContainerRecord, inside: RunInside, seconds_max: float
) -> str:
    """Empty if a hook went well; else how it failed."""
    if hook.exec is not None:
        return await _exec_error(hook.exec.command or [], inside, seconds_max)
    if hook.httpGet is not None:
        return await _within(_http_error(hook.httpGet, record), seconds_max)
    if hook.tcpSocket is not None:
        return await _within(_tcp_error(hook.tcpSocket, record), seconds_max)
    if hook.sleep is not None:
        await asyncio.sleep(min(float(max(hook.sleep.seconds, 0)), seconds_max))
    return ""


async def _within(question: Awaitable[str], seconds: float) -> str:
    try:
        return await asyncio.wait_for(question, seconds)
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (OSError, h11.RemoteProtocolError, h11.LocalProtocolError, ValueError) as error:
        return str(error)[:MESSAGE_CHARS_MAX]


async def _exec_error(command: Sequence[str], inside: RunInside, seconds: float) -> str:
    if not command:
        return "found no command"
    code, output = await inside(command, seconds)
    return f"code {code}: {output}"[:MESSAGE_CHARS_MAX] if code else ""


def _port(port: int | str, record: ContainerRecord) -> int:
    if isinstance(port, int) or port.isdecimal():
        return int(port)
    found = next((p.containerPort for p in record.ports or () if p.name == port), None)
    if found is None:
        raise ValueError(f"found no port named {port!r} in the container")
    return found


async def _tcp_error(action: TcpSocketAction, record: ContainerRecord) -> str:
    _, writer = await asyncio.open_connection(
        action.host or HOST_DEFAULT, _port(action.port, record)
    )
    await _close(writer)
    return ""


async def _http_error(action: HttpGetAction, record: ContainerRecord) -> str:
    host, port = action.host or HOST_DEFAULT, _port(action.port, record)
    tls = _trusting() if action.scheme.upper() == "HTTPS" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        writer.write(peer.send(_request(action, f"{host}:{port}")) or b"")
        writer.write(peer.send(h11.EndOfMessage()) or b"")
        await writer.drain()
        status = await _status(peer, reader)
    finally:
        await _close(writer)
    # A redirect is an answer too: nobody is followed elsewhere.
    return "" if 200 <= status < 400 else f"HTTP status {status}"


def _request(action: HttpGetAction, where: str) -> h11.Request:
    given = [(header.name, header.value) for header in action.httpHeaders or ()]
    names = {name.lower() for name, _ in given}
    usual = [("Host", where), ("User-Agent", "kube-probe/numalign"), ("Accept", "*/*")]
    headers = [*given, *(pair for pair in usual if pair[0].lower() not in names)]
    path = action.path or "/"
    target = path if path.startswith("/") else f"/{path}"
    return h11.Request(method="GET", target=target, headers=[*headers, ("Connection", "close")])


async def _status(peer: h11.Connection, reader: asyncio.StreamReader) -> int:
    while True:
        event = peer.next_event()
        if event is h11.NEED_DATA:
            peer.receive_data(await reader.read(HEAD_BYTES_MAX))
        elif isinstance(event, h11.Response):
            return event.status_code
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionError("the connection ended without an answer")


def _trusting() -> ssl.SSLContext:
    """As the kubelet: a probe looks whether somebody answers, not who it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _grpc_error(action: GrpcAction) -> str:
    name = (action.service or "").encode()[:127]
    request = b"\x0a" + bytes([len(name)]) + name if name else b""  # service, field 1
    async with grpc.aio.insecure_channel(f"{HOST_DEFAULT}:{action.port}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/grpc.health.v1.Health/Check", request_serializer=bytes, response_deserializer=bytes
        )
        try:
            answer = await call(request)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"[:MESSAGE_CHARS_MAX]
    return "" if answer.startswith(_SERVING) else "the service is not serving"


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
