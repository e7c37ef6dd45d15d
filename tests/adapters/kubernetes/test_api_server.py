"""Following objects through everything that an API server may do, with answers played to us."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from tests.adapters.kubernetes.test_fast_lane import Server

from numalign.adapters.kubernetes import api_server as kubernetes
from numalign.adapters.kubernetes.api_server import (
    ApiServer,
    Backoff,
    Changed,
    Gone,
    Listed,
    Unreadable,
)
from numalign.core.errors import ApiError, ConfigError, WireError
from numalign.wire.kubernetes.api import PODS


def pod(name, version="1"):
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
        }
    }


def listing(*names, version="10", rest=""):
    metadata = {"resourceVersion": version, "continue": rest}
    return 200, {"metadata": metadata, "items": [pod(name) for name in names]}


def lines(*events):
    return 200, b"".join(json.dumps({"type": t, "object": o}).encode() + b"\n" for t, o in events)


def status(code, **others):
    return code, {"kind": "Status", "code": code, "message": f"code {code}", **others}


class Played:
    """An API server that gives these answers one after the other, and then waits for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        http = httpx2.AsyncClient(
            base_url="http://server", transport=httpx2.MockTransport(self._answer)
        )
        self.api = ApiServer(http, backoff_seconds=(0.001, 0.002))

    async def _answer(self, request):
        self.requests.append(request)
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        code, content, *headers = answer
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return httpx2.Response(code, content=body, headers=headers[0] if headers else None)

    def asked(self, key):
        """One parameter of each request."""
        return [request.url.params.get(key) for request in self.requests]

    async def first(self, count, **options):
        """The first events of a watch, by the names in them."""
        found = []
        watch = self.api.watched(PODS, _name, **options)
        async with asyncio.timeout(5):
            async for event in watch:
                found.append(event)
                if len(found) == count:
                    break
            await watch.aclose()
        return found


def _name(data):
    name = json.loads(data)["metadata"]["name"]
    if name.startswith("bad"):
        raise WireError(f"{name} is no pod")
    return name


def test_a_watch_goes_on_from_the_list():
    played = Played(
        listing("a", "b"),
        lines(("ADDED", pod("c", "11")), ("MODIFIED", pod("a", "12")), ("DELETED", pod("b", "13"))),
    )
    found = asyncio.run(played.first(4, fields="spec.nodeName=x", labels="l=m"))
    assert found == [Listed(("a", "b")), Changed("c"), Changed("a"), Gone("ns", "b", "uid-b")]
    assert played.asked("resourceVersion") == [None, "10"]
    assert played.asked("fieldSelector") == ["spec.nodeName=x"] * 2
    assert played.asked("labelSelector") == ["l=m"] * 2
    assert played.asked("allowWatchBookmarks") == [None, "true"]


def test_a_watch_that_ends_is_resumed_where_it_was():
    bookmark = ("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
    played = Played(
        listing("a"),
        lines(("ADDED", pod("b", "20"))),
        lines(bookmark),
        lines(("ADDED", pod("c", "41"))),
    )
    found = asyncio.run(played.first(3))
    assert found == [Listed(("a",)), Changed("b"), Changed("c")]
    assert played.asked("resourceVersion") == [None, "10", "20", "40"]


@pytest.mark.parametrize(
    "gone",
    [status(410, reason="Expired"), lines(("ERROR", status(410, reason="Expired")[1]))],
    ids=["as an answer", "in the stream"],
)
def test_lost_history_means_a_new_list(gone):
    played = Played(listing("a", "b"), gone, listing("b", version="90"), lines())
    found = asyncio.run(played.first(2))
    assert found == [Listed(("a", "b")), Listed(("b",))]


@pytest.mark.parametrize(
    "trouble",
    [
        status(503),
        status(403),
        status(429, details={"retryAfterSeconds": 0}),
        (500, b"<html>no JSON</html>"),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("silence"),
        httpx2.RemoteProtocolError("cut off"),
    ],
    ids=str,
)
def test_trouble_is_told_waited_out_and_nothing_is_lost(trouble):
    played = Played(
        trouble, listing("a"), lines(("ADDED", pod("b", "20"))), trouble, lines(("ADDED", pod("c")))
    )
    told = []
    found = asyncio.run(played.first(3, on_trouble=told.append))
    assert found == [Listed(("a",)), Changed("b"), Changed("c")]
    assert len(told) == 2
    assert played.asked("resourceVersion")[3:] == ["20", "20"]


def test_an_object_that_cannot_be_read_is_told_and_the_others_count():
    played = Played(listing("a", "bad-one"), lines(("ADDED", pod("bad-two", "11"))))
    found = asyncio.run(played.first(3))
    one = Unreadable("ns", "bad-one", "uid-bad-one", "bad-one is no pod")
    two = Unreadable("ns", "bad-two", "uid-bad-two", "bad-two is no pod")
    # The list names it too: it is there, so that nobody takes it for gone.
    assert found == [Listed(("a",), (one,)), one, two]


@pytest.mark.parametrize("garbage", [b"no json\n", b'{"type": "ODD", "object": {}}\n'])
def test_garbage_in_a_watch_means_a_new_list(garbage):
    played = Played(listing("a"), (200, garbage), listing("b"))
    assert asyncio.run(played.first(2)) == [Listed(("a",)), Listed(("b",))]


def test_a_line_without_end_is_not_kept(monkeypatch):
    monkeypatch.setattr(kubernetes, "LINE_BYTES_MAX", 100)
    played = Played(listing("a"), (200, b"x" * 1000), listing("b"))
    assert asyncio.run(played.first(2)) == [Listed(("a",)), Listed(("b",))]


def test_long_lists_come_in_pages():
    played = Played(listing("a", rest="more"), listing("b", version="11"))
    found, version = asyncio.run(played.api.listed(PODS, "ns"))
    assert [json.loads(bytes(one))["metadata"]["name"] for one in found] == ["a", "b"]
    assert version == "11"
    assert played.asked("continue") == [None, "more"]
    assert played.requests[0].url.path == "/api/v1/namespaces/ns/pods"


def test_a_server_that_asks_to_come_back_is_asked_again(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(kubernetes.asyncio, "sleep", sleep)
    busy = status(429), {"Retry-After": "2"}
    played = Played((*busy[0], busy[1]), (*busy[0], busy[1]), (200, pod("a")))
    assert json.loads(asyncio.run(played.api.get(PODS, "a", "ns"))) == pod("a")
    assert all(2 <= wait <= 3 for wait in waits)
    assert len(waits) == 2


def test_it_is_not_asked_for_ever(monkeypatch):
    async def sleep(_):
        return None

    monkeypatch.setattr(kubernetes.asyncio, "sleep", sleep)
    played = Played(*[(*status(429), {"Retry-After": "1"})] * 9)
    with pytest.raises(ApiError) as caught:
        asyncio.run(played.api.get(PODS, "a", "ns"))
    assert (caught.value.code, caught.value.retry) == (429, True)
    assert len(played.requests) == kubernetes.THROTTLED_TRIES_MAX


def test_an_object_that_its_reader_never_foresaw_is_told_and_the_watch_goes_on():
    def reader(data):
        found = json.loads(data)["metadata"]
        return {}[found["name"]] if found["name"] == "odd" else found["name"]

    async def story():
        played = Played(
            listing("a", "odd"), lines(("MODIFIED", pod("odd")), ("MODIFIED", pod("b")))
        )
        watch = played.api.watched(PODS, reader)
        return [await anext(watch) for _ in range(4)]

    listed, first, second, third = asyncio.run(story())
    assert listed.items == ("a",)
    assert listed.unreadable == (first,)
    assert (first.name, first.uid) == ("odd", "uid-odd")
    assert "unexpected KeyError: 'odd'" in first.error
    assert isinstance(second, Unreadable)
    assert third == Changed("b")


def test_an_answer_without_end_is_not_kept(monkeypatch):
    monkeypatch.setattr(kubernetes, "ANSWER_BYTES_MAX", 100)
    with pytest.raises(WireError, match="more than 100 bytes"):
        asyncio.run(Played((200, b"x" * 1000)).api.get(PODS, "a", "ns"))


def test_an_error_that_the_library_does_not_know_itself_is_told_as_an_unclear_answer():
    # As it comes from below when a surplus connection cannot be closed in good order.
    played = Played(OSError("broken pipe"))
    with pytest.raises(ApiError, match="the API server does not answer: broken pipe") as found:
        asyncio.run(played.api.create_part(PODS, "a", "binding", {}, "default"))
    assert found.value.retry


@pytest.mark.parametrize("has_token", [True, False])
def test_the_short_way_is_taken_once_the_log_in_is_known_and_left_when_it_runs_out(has_token):
    """The general client finds out who we are; a 401 on the short way asks it again."""
    token = {"Authorization": "Bearer one"} if has_token else {}
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"] * 5
    answers[2] = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}"
    server = Server(lambda _, number: [answers[number - 1]])

    async def story():
        async with server.lane() as lane:
            url = f"http://127.0.0.1:{lane.address.port}"
            http = httpx2.AsyncClient(base_url=url, headers=token, trust_env=False)
            async with ApiServer(http, lane=lane) as api:
                for _ in range(4):
                    assert await api.get(PODS, "a", "default") == b"{}"

    asyncio.run(story())
    heads = [head.decode() for head, _ in server.requests]
    assert ["user-agent" in head.lower() for head in heads] == [True, False, False, True, False]
    assert all(("Bearer one" in head) is has_token for head in heads)


def test_deleting_means_this_very_object():
    played = Played((200, {}), status(409), status(404), status(403))

    async def story():
        found = [
            await played.api.delete(PODS, "a", "ns", uid="u", grace_seconds=0) for _ in range(3)
        ]
        with pytest.raises(ApiError, match="code 403"):
            await played.api.delete(PODS, "a", "ns")
        return found

    assert asyncio.run(story()) == [True, False, False]
    body = json.loads(played.requests[0].content)
    assert body["preconditions"] == {"uid": "u"}
    assert body["gracePeriodSeconds"] == 0


def test_waits_grow_with_chance_in_them_and_end_growing():
    backoff = Backoff(1.0, 8.0)
    for most in (1, 2, 4, 8, 8):
        assert most / 2 <= backoff.next_seconds() <= most
    backoff.reset()
    assert backoff.next_seconds() <= 1
    assert backoff.next_seconds(at_least=100) == 100


@pytest.mark.parametrize("is_watch", [False, True])
def test_a_request_that_is_cancelled_while_its_connection_is_made_leaves_nothing_open(is_watch):
    async def story():
        accepted: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()

        async def silent(reader, writer):  # a server that never answers the first word of TLS
            await accepted.put(reader)
            await ended.wait()
            writer.close()
            await writer.wait_closed()

        ended = asyncio.Event()
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        api = ApiServer(httpx2.AsyncClient(base_url=f"https://127.0.0.1:{port}", trust_env=False))
        work = anext(api.watched(PODS, _name)) if is_watch else api.get(PODS, "a", "ns")
        request = asyncio.ensure_future(work)
        async with asyncio.timeout(5):
            reader = await accepted.get()
            assert await reader.read(1)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            while await reader.read(4096):  # ends once the other side has closed
                pass
        await api.close()
        ended.set()
        server.close()
        await server.wait_closed()

    asyncio.run(story())


def test_a_way_to_the_cluster_that_is_none_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    broken = tmp_path / "broken"
    for content in ("", "[]", "clusters: 7", "a: [", "apiVersion: v1\ncurrent-context: x\n"):
        broken.write_text(content)
        with pytest.raises(ConfigError) as caught:
            ApiServer.connect(broken)
        assert "--kubeconfig" in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        ApiServer.connect(tmp_path / "missing")


def test_a_log_in_program_of_the_current_version_is_run(tmp_path):
    program = tmp_path / "login"
    token = {"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "secret"}}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(token)}'\n")
    program.chmod(0o700)
    login = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}
    config = tmp_path / "config"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": login}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "current-context": "x",
    }
    config.write_text(json.dumps(content))
    api = ApiServer.connect(config)
    assert api.namespace == "n"

    async def ask():
        with pytest.raises(ApiError) as caught:
            await api.get(PODS, "a", "ns")
        await api.close()
        return caught.value

    error = asyncio.run(ask())
    assert (error.code, error.retry) == (0, True)
    assert "does not answer" in str(error)
