"""The past of an agent over HTTP."""

import asyncio
import time
from contextlib import contextmanager

import httpx
import pytest
from tests.sockets import short_directory
from tests.web.in_memory_agent import InMemoryAgent, manifest, served
from tests.web.schemas import faults

from numalign.apps.past.recorder import Recorder
from numalign.web.openapi import document


@contextmanager
def remembered(agent, directory, short):
    recorder = Recorder(agent.setup, directory, "host", together_seconds=0.01)
    count = agent.journal.on_note

    def note(one, seconds):
        count(one, seconds)
        recorder.heard(one, agent.state, agent.now)

    agent.journal.on_note = note
    with served(agent, short, recorder=recorder) as host:

        async def start():
            return asyncio.create_task(recorder.run(lambda: agent.state, lambda: agent.now))

        task = host.do(start())
        try:
            yield host, recorder
        finally:
            host.call(task.cancel)
            host.do(recorder.finish())


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


@pytest.fixture
def host(agent, tmp_path):
    with short_directory() as short, remembered(agent, tmp_path, short) as found:
        yield found


@pytest.fixture
def unix(host):
    transport = httpx.HTTPTransport(uds=str(host[0].socket))
    with httpx.Client(transport=transport, base_url="http://agent", timeout=20) as client:
        yield client


def moments(client, count, **query):
    end = time.monotonic() + 10
    while True:
        found = client.get("/history", params=query).json()
        if len(found["moments"]) >= count or time.monotonic() > end:
            return found
        time.sleep(0.02)


def test_decisions_are_listed_and_each_can_be_looked_at(unix):
    unix.post("/pods", json=manifest("a", cpu="4"))
    unix.post("/pods", json=manifest("big", cpu="30"))
    found = moments(unix, 3)
    assert faults(found, {"$ref": "#/components/schemas/History"}, document()) == []
    assert [m["what"] for m in found["moments"]] == ["started", "pod_admitted", "pod_rejected"]
    assert found["series"]["cpusGiven"] == [4]
    assert found["series"]["refused"] == [1]
    admitted = found["moments"][1]
    then = unix.get(f"/history/{admitted['id']}", params={"trace": "true"}).json()
    assert faults(then, {"$ref": "#/components/schemas/PastMoment"}, document()) == []
    assert then["trace"]
    assert [p["metadata"]["name"] for p in then["pods"]["items"]] == ["a"]
    assert "trace" not in unix.get(f"/history/{admitted['id']}").json()


def test_only_newer_ones_can_be_asked_for(unix):
    for name in "abcd":
        unix.post("/pods", json=manifest(name, cpu="1"))
    found = moments(unix, 5)
    ids = [m["id"] for m in found["moments"]]
    assert (found["first"], found["last"], found["total"]) == (ids[0], ids[-1], 5)
    assert [m["id"] for m in moments(unix, 2, since=ids[2])["moments"]] == ids[3:]
    assert [m["id"] for m in moments(unix, 2, before=ids[2])["moments"]] == ids[:2]
    bare = moments(unix, 2, limit=2, series="false")
    assert [m["id"] for m in bare["moments"]] == ids[-2:]
    assert bare["series"] is None


@pytest.mark.parametrize(
    "path", ["/history/99", "/history/x", "/history/-1", "/history/" + "9" * 40]
)
def test_a_moment_that_is_not_known_is_not_found(unix, path):
    assert unix.get(path).status_code == 404


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "since=-1", "series=maybe"])
def test_a_bad_question_is_refused(unix, query):
    assert unix.get(f"/history?{query}").status_code == 400


def test_the_page_is_told_that_there_is_a_past(unix, host):
    assert "history" in unix.get("/node").json()["source"]["has"]


def test_an_agent_without_a_history_says_so(agent):
    with short_directory() as short, served(agent, short) as found:
        transport = httpx.HTTPTransport(uds=str(found.socket))
        with httpx.Client(transport=transport, base_url="http://agent") as client:
            assert client.get("/history").json()["reason"] == "NotKept"
            assert client.get("/history/1").status_code == 404
            assert "history" not in client.get("/node").json()["source"]["has"]
