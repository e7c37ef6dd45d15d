"""Questions to real servers on loopback, with the answers that a probe must tell apart."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from numalign.adapters.processes.probing import hook_error, probe_error
from numalign.wire.pods.records import (
    ContainerPort,
    ContainerRecord,
    ExecAction,
    GrpcAction,
    Hook,
    HttpGetAction,
    HttpHeader,
    Probe,
    SleepAction,
    TcpSocketAction,
)

# Real sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


async def nobody_inside(argv, seconds_max):
    del seconds_max
    return (0, "") if argv == ["true"] else (3, "no luck")


async def served(answer, ask):
    """Asks about a server that gives this answer to whatever it is sent; None: it stays silent."""
    heard, talks = [], []

    async def talk(reader, writer):
        talks.append(asyncio.current_task())
        try:
            heard.append(await reader.read(4096))
            if answer is None:
                await asyncio.sleep(10)
            writer.write(answer)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        record = ContainerRecord("c", ports=[ContainerPort(port, "web")])
        return await ask(record, port), heard
    finally:
        server.close()
        for one in talks:
            if answer is None:
                one.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close in the next round


PATIENT = 30  # seconds: whoever answers does so in time, also on a busy machine


def http(answer, **more):
    async def ask(record, _port):
        action = HttpGetAction("web", **more)
        probe = Probe(httpGet=action, timeoutSeconds=1 if answer is None else PATIENT)
        return await probe_error(probe, record, nobody_inside)

    error, heard = asyncio.run(served(answer, ask))
    return error, heard[0].decode() if heard else ""


@pytest.mark.parametrize("status", [200, 204, 302])
def test_an_answer_of_success_or_elsewhere_is_well(status):
    assert http(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())[0] == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", "HTTP status 503"),
        (b"SSH-2.0-OpenSSH_9\r\n", ""),
        (b"", ""),
        (b"HTTP/1.1 200 X\r\nA: " + b"x" * 100_000, ""),
        (None, "no answer within 1 s"),
    ],
)
def test_any_other_answer_is_told(answer, words):
    error, _ = http(answer)
    assert error
    assert words in error


def test_path_and_headers_are_those_of_the_manifest():
    header = HttpHeader("X-Token", "t")
    _, heard = http(b"HTTP/1.1 200 OK\r\n\r\n", path="healthz?full=1", httpHeaders=[header])
    assert heard.startswith("GET /healthz?full=1 HTTP/1.1\r\n")
    assert "X-Token: t\r\n" in heard


def test_a_port_that_somebody_listens_on_is_well_and_another_is_not():
    async def ask(record, port):
        probe = Probe(tcpSocket=TcpSocketAction(port), timeoutSeconds=PATIENT)
        return await probe_error(probe, record, nobody_inside), port

    (error, port), _ = asyncio.run(served(b"", ask))
    assert error == ""
    closed = Probe(tcpSocket=TcpSocketAction(port))
    assert asyncio.run(probe_error(closed, ContainerRecord("c"), nobody_inside))
    unnamed = Probe(tcpSocket=TcpSocketAction("nope"))
    error = asyncio.run(probe_error(unnamed, ContainerRecord("c"), nobody_inside))
    assert error == "found no port named 'nope' in the container"


@pytest.mark.parametrize(
    ("answer", "words"), [(b"\x08\x01", ""), (b"\x08\x02", "not serving"), (b"", "not serving")]
)
def test_a_grpc_service_says_itself_whether_it_serves(answer, words):
    asked = []

    def check(request, _context):
        asked.append(request)
        return answer

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        probe = Probe(grpc=GrpcAction(port, "db"), timeoutSeconds=PATIENT)
        error = asyncio.run(probe_error(probe, ContainerRecord("c"), nobody_inside))
    finally:
        server.stop(0).wait()
    assert (words in error) if words else error == ""
    assert asked == [b"\x0a\x02db"]


def test_a_command_is_well_if_it_ends_with_0():
    async def ask(command):
        return await probe_error(
            Probe(exec=ExecAction(command)), ContainerRecord("c"), nobody_inside
        )

    assert asyncio.run(ask(["true"])) == ""
    assert asyncio.run(ask(["false"])) == "code 3: no luck"


def test_a_hook_that_sleeps_ends_with_the_grace_period():
    hook = Hook(sleep=SleepAction(100))
    assert asyncio.run(hook_error(hook, ContainerRecord("c"), nobody_inside, 0.05)) == ""
