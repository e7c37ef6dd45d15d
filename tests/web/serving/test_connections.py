"""Who is let in: within limits of number, of one address and of descriptors."""

import asyncio
import resource
import socket
import threading
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from tests.web.in_memory_agent import InMemoryAgent, served

from numalign.adapters.local import descriptors
from numalign.web.serving.connections import LOOPBACK, peer_of
from numalign.web.serving.http_server import serve_app
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import tcp_listener

EVENTS = b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def bounded(tmp_path, short_path):
    with ExitStack() as stack:

        def start(**limits):
            agent = InMemoryAgent(tmp_path)
            return stack.enter_context(served(agent, short_path, limits=Limits(**limits)))

        yield start


def connected(host):
    where = urlsplit(host.tcp)
    return socket.create_connection((where.hostname, where.port), timeout=10)


def is_dropped(connection):
    """Whether the server ends a connection, perhaps after a word of regret."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_an_idle_connection_makes_place_for_a_new_one_the_oldest_first(bounded):
    host = bounded(connections_max=4)
    with ExitStack() as stack:
        held = [stack.enter_context(connected(host)) for _ in range(6)]
        assert httpx.get(f"{host.tcp}/healthz").status_code == 200
        assert [is_dropped(one) for one in held[:3]] == [True] * 3
        held[-1].sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert held[-1].recv(12) == b"HTTP/1.1 200"


def test_connections_that_are_being_answered_are_not_closed_for_others(bounded):
    host = bounded(connections_max=2)
    with connected(host) as one, connected(host) as two:
        for stream in (one, two):
            stream.sendall(EVENTS)
            assert stream.recv(12) == b"HTTP/1.1 200"
        answer = httpx.get(f"{host.tcp}/healthz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "TooManyConnections")
        transport = httpx.HTTPTransport(uds=str(host.socket))
        with httpx.Client(transport=transport, base_url="http://x") as own:
            assert own.get("/healthz").status_code == 200, "the unix socket has its own places"


def test_streams_of_one_socket_leave_those_of_the_other(bounded):
    host = bounded(streams_max=1)
    with connected(host) as stranger, socket.socket(socket.AF_UNIX) as own:
        stranger.sendall(EVENTS)
        assert stranger.recv(12) == b"HTTP/1.1 200"
        own.connect(str(host.socket))
        own.sendall(EVENTS)
        assert own.recv(12) == b"HTTP/1.1 200"
        assert httpx.get(f"{host.tcp}/events").json()["reason"] == "TooManyStreams"


def test_the_last_descriptors_are_not_for_connections(bounded):
    host = bounded()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = soft - descriptors.free()
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + descriptors.SPARE_MAX + 20, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # Ours count too, as all is one process here: what the server holds must make place.
        count = descriptors.free() - descriptors.spare()
        held = [stack.enter_context(connected(host)) for _ in range(count)]
        assert is_dropped(held[0])
        while descriptors.free() < descriptors.spare() // 2 + 4:
            held.pop().close()  # room for one more of each side
        transport = httpx.HTTPTransport(uds=str(host.socket))
        with httpx.Client(transport=transport, base_url="http://x") as own:
            [problem] = own.get("/readyz").json()["problems"]
        assert "descriptors are free" in problem
    assert httpx.get(f"{host.tcp}/readyz").status_code == 200


def test_all_of_loopback_is_one_peer_since_every_user_has_all_its_addresses():
    assert {peer_of(("127.0.0.1", 1)), peer_of(("127.3.2.1", 5)), peer_of("")} == {LOOPBACK}
    assert peer_of(("::1", 1, 0, 0)) == LOOPBACK
    assert peer_of(("192.0.2.7", 1)) == "192.0.2.7"
    assert peer_of(("fe80::1%eth0", 1, 0, 2)) == "fe80::1"


@contextmanager
def on_own_address(limits):
    """A server on an address of this host that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        address = probe.getsockname()[0]
    listener = tcp_listener(address, 0, allow_remote=True)
    where = listener.getsockname()[:2]
    found = {}
    up = threading.Event()

    async def wait_for_ever(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async def run():
        found["loop"], found["task"] = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await serve_app(wait_for_ever, listener, limits, on_started=lambda _: up.set())
        except asyncio.CancelledError:
            return

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert up.wait(10)
    try:
        yield where
    finally:
        found["loop"].call_soon_threadsafe(found["task"].cancel)
        thread.join(10)


def test_one_address_of_another_host_gets_only_its_part():
    with on_own_address(Limits(connections_max=8, per_peer_max=2)) as where, ExitStack() as stack:

        def asked():
            one = stack.enter_context(socket.create_connection(where, timeout=10))
            one.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            return one.recv(12)

        assert [asked() for _ in range(3)] == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 503"]
