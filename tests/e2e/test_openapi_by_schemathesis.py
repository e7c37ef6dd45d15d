"""Schemathesis against a real agent by our OpenAPI document: no answer that it does not know."""

import asyncio
import contextlib
import threading

import pytest
from tests.apps.agent.processes import AgentProcess
from tests.real import schemathesis
from tests.real.kept import MissingError

pytestmark = pytest.mark.e2e

SECONDS_MAX = 600
# A log that is followed ends with its container, which nothing here ends.
HOOKS = """
import schemathesis

@schemathesis.hook
def filter_query(ctx, query):
    return "follow" not in (query or {})
"""
# What no schema can say: a manifest is more than its kinds and members, the process of a run must
# be there, and the container of a log is one of the pod's. And a pod that is deleted is still told
# while it ends (202).
CONFIG = """
hooks = "hooks"
checks.use_after_free.enabled = false

[[operations]]
include-name = ["POST /pods", "POST /admission", "POST /runs", "GET /pods/{uid}/log"]
checks.positive_data_acceptance.enabled = false
"""


@contextlib.contextmanager
def over_tcp(path):
    """A port on loopback that leads to a unix socket, where a client needs no token."""
    started, stop = threading.Event(), asyncio.Event()
    found = {}

    async def copied(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def lead(reader, writer):
        try:
            inner = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copied(reader, inner[1]), copied(inner[0], writer))

    async def serve():
        async with await asyncio.start_server(lead, "127.0.0.1", 0) as server:
            found["port"] = server.sockets[0].getsockname()[1]
            found["loop"] = asyncio.get_running_loop()
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        yield f"http://127.0.0.1:{found['port']}"
    finally:
        found["loop"].call_soon_threadsafe(stop.set)
        thread.join()


@pytest.fixture
def agent():
    try:
        schemathesis.command()
    except MissingError as error:
        pytest.skip(str(error))
    arguments = ["--runtime", "none", "--machine", "epyc-2s-nps4", "--listen", "127.0.0.1:0"]
    with AgentProcess(arguments=arguments) as found:
        yield found
        assert found.problems() == []
        assert "Traceback" not in found.said()


def asked(folder, url, *arguments, tested):
    """One run of it over so many operations; each answer is one that the document knows."""
    (folder / "hooks.py").write_text(HOOKS)
    (folder / "schemathesis.toml").write_text(CONFIG)
    found = schemathesis.run(
        *("run", f"{url}/openapi.json", "--max-examples", "100", "--continue-on-failure"),
        *("--suppress-health-check", "all", "--request-timeout", "30", *arguments),
        seconds_max=SECONDS_MAX,
        folder=folder,
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    assert f"Tested: {tested}" in found.stdout


@pytest.mark.parametrize("seed", ["1", "2"])
def test_over_tcp_every_operation_answers_as_its_document_says(agent, seed, tmp_path):
    token = (agent.state / "api-token").read_text().strip()
    header = f"Authorization: Bearer {token}"
    # The stream of events never ends; its own tests read it.
    asked(
        tmp_path, agent.tcp(), "-H", header, "--exclude-path", "/events", "--seed", seed, tested=21
    )


def test_over_the_socket_runs_are_answered_as_their_document_says(agent, tmp_path):
    with over_tcp(agent.state / "agent.sock") as url:
        asked(tmp_path, url, "--include-path-regex", "^/runs", tested=2)
