"""gRPC over unix sockets: serving with tight permissions, dialling, and Go's error texts."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import quote

import grpc
import grpc.aio

from numalign.core.errors import ConfigError, PeerError

SOCKET_PATH_MAX: Final = 107  # sun_path in unix(7), without the final zero byte
SOCKET_MODE: Final = 0o600
MESSAGE_BYTES_MAX: Final = 4 << 20  # what Go's gRPC receives by default
ERROR_TEXT_MAX: Final = 2_000  # of a peer's own words
METADATA_BYTES_MAX: Final = 16 << 10
CALLS_MAX: Final = 64  # at the same time, over all connections of a server
STREAMS_PER_CONNECTION_MAX: Final = 100
ANSWER_SECONDS_MAX: Final = 10.0  # for a client to take its answer
TOO_MANY_CALLS: Final = "too many calls at once"
CONNECTION_SECONDS_MAX: Final = 60.0  # clients connect again by themselves
STOP_SECONDS: Final = 0.5  # for open calls to end when a server stops

Channel = grpc.aio.Channel
Options = Sequence[tuple[str, int | str]]
Handler = Callable[[bytes], Awaitable[bytes]]
Identity = tuple[int, int]

# Codes that say nothing about the request itself: the same call may work in a moment.
_PASSING: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)


class RefusedError(Exception):
    """A server's own refusal: the client gets this code and text."""

    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def address(path: Path) -> str:
    """The gRPC address of a socket; ConfigError where Linux cannot take the path."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX:
        raise ConfigError(
            f"{path}: the path of a socket has {length} bytes, Linux takes at most "
            f"{SOCKET_PATH_MAX}. Choose a shorter directory."
        )
    return f"unix:{quote(str(path))}"


def identity(status: os.stat_result) -> Identity:
    """What tells a socket file from another one that is made later under the same name.

    The number alone is given out again at once; the time is that of bind, whatever chmod does.
    """
    return status.st_ino, status.st_mtime_ns


def remove_sockets(directory: Path) -> None:
    """Removes every socket in a directory and leaves all other files alone."""
    for path in sorted(directory.iterdir()):
        if stat.S_ISSOCK(path.lstat().st_mode):
            remove_socket(path)


def remove_socket(path: Path) -> None:
    """Removes one, if it is there; PeerError if it cannot be."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PeerError(f"{path}: cannot be removed: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Served:
    server: grpc.aio.Server
    path: Path
    identity: Identity

    async def stop(self) -> None:
        """Ends the server and removes its socket, unless another one has taken the name."""
        await self.server.stop(STOP_SECONDS)
        with suppress(OSError):  # gone already, or on a disk that is read-only by now
            if identity(self.path.lstat()) == self.identity:
                self.path.unlink()


async def serve(path: Path, methods: dict[str, Handler], *, request_bytes_max: int) -> Served:
    """A server of these methods on a socket that only its owner may open.

    The socket is bound under another name and renamed, so that nobody ever sees it with wider
    permissions or before it answers. The other name is as short, for the sake of the limit.
    """
    options: Options = (
        ("grpc.max_receive_message_length", request_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
        ("grpc.max_connection_age_ms", int(CONNECTION_SECONDS_MAX * 1000)),
        ("grpc.max_connection_age_grace_ms", int(ANSWER_SECONDS_MAX * 1000)),
    )
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((_Handlers(methods),))
    hidden = path.with_name("." + path.name[: len(path.name) - 2] + "~")
    target = address(hidden)
    remove_socket(hidden)
    try:
        server.add_insecure_port(target)
        hidden.chmod(SOCKET_MODE)
        await server.start()
        hidden.replace(path)
    except (OSError, RuntimeError) as exc:
        await server.stop(None)
        raise PeerError(f"{path}: cannot listen on this socket ({exc})") from exc
    return Served(server, path, identity(path.lstat()))


class _Handlers(grpc.GenericRpcHandler):
    """The methods of a server by their full names, and how many calls are being answered.

    gRPC's own limit counts a call until the client has taken the answer, so a few clients that
    never read could shut out all others. Ours ends with the time for an answer.
    """

    def __init__(self, methods: dict[str, Handler]) -> None:
        self._open = 0
        # A unary answer is a stream of one message on the wire. As a stream we can wait for the
        # client to take it, and give up on one that never reads.
        self._methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_stream_rpc_method_handler(self._streaming(answer))
            for name, answer in methods.items()
        }

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return self._methods.get(handler_call_details.method)

    def _streaming(
        self, answer: Handler
    ) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[None]]:
        async def handle(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            if self._open >= CALLS_MAX:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_CALLS)
            self._open += 1
            try:
                await _answer(answer, request, context)
            finally:
                self._open -= 1

        return handle


async def _answer(
    answer: Handler, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
) -> None:
    try:
        data = await answer(request)
    except RefusedError as refusal:
        await context.abort(refusal.code, refusal.text)
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await context.write(data)
    except TimeoutError as exc:
        # An answer that is under way cannot be taken back, so there is no way to send an error.
        # The client's connection ends by its age.
        raise asyncio.CancelledError from exc


def channel(path: Path, *, answer_bytes_max: int = MESSAGE_BYTES_MAX) -> grpc.aio.Channel:
    """A channel to a peer's socket; nothing is dialled yet."""
    options: Options = (
        ("grpc.default_authority", "localhost"),
        ("grpc.max_receive_message_length", answer_bytes_max),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        # A plugin that comes back on the same socket is another peer: share no connection and
        # no back-off with the one before.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    )
    return grpc.aio.insecure_channel(address(path), options=options)


async def dial(
    path: Path, seconds_max: float, *, answer_bytes_max: int = MESSAGE_BYTES_MAX
) -> grpc.aio.Channel:
    """A connected channel; PeerError in Go's words when it does not come about in time."""
    connection = channel(path, answer_bytes_max=answer_bytes_max)
    try:
        async with asyncio.timeout(seconds_max):
            await connection.channel_ready()
    except TimeoutError as exc:
        await connection.close()
        raise PeerError("context deadline exceeded", retry=True) from exc
    except asyncio.CancelledError:
        await connection.close()
        raise
    return connection


async def called(
    connection: grpc.aio.Channel, method: str, request: bytes, seconds_max: float
) -> bytes:
    """The answer of a peer as bytes; PeerError in the form that Go gives to a refusal."""
    try:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = connection.unary_unary(method)
        return await call(request, timeout=seconds_max)
    except grpc.aio.AioRpcError as exc:
        _refused(exc)
    except (asyncio.CancelledError, grpc.aio.UsageError) as exc:
        _closing(exc)


async def streamed(
    connection: grpc.aio.Channel, method: str, request: bytes
) -> AsyncGenerator[bytes, None]:
    """The messages of a peer's stream until it ends; PeerError unless it ended well."""
    try:
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = connection.unary_stream(method)
        async for message in call(request):
            yield message
    except grpc.aio.AioRpcError as exc:
        _refused(exc)
    except (asyncio.CancelledError, grpc.aio.UsageError) as exc:
        _closing(exc)


def _closing(exc: BaseException) -> NoReturn:
    """Tells a channel that was closed under a call from a task that is itself cancelled."""
    task = asyncio.current_task()
    if isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling():
        raise exc
    text = go_text(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing")
    raise PeerError(text, retry=True) from exc


def _refused(error: grpc.aio.AioRpcError) -> NoReturn:
    code = error.code()
    details = error.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        details = "context deadline exceeded"
    raise PeerError(go_text(code, details), retry=code in _PASSING) from error


def go_text(code: grpc.StatusCode, details: str) -> str:
    """A refusal as Go prints it: ``rpc error: code = NotFound desc = ...``."""
    if len(details) > ERROR_TEXT_MAX:
        details = details[:ERROR_TEXT_MAX] + "…"
    name = code.name.title().replace("_", "").replace("Cancelled", "Canceled")
    return f"rpc error: code = {'OK' if name == 'Ok' else name} desc = {details}"
