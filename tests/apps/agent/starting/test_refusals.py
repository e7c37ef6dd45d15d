"""The reasons of refusals outlive the agent; a damaged file is noted and never stops a start."""

import asyncio
from dataclasses import replace

import pytest
from tests.apps.agent.steps.test_admission import refused
from tests.apps.agent.test_step import Host

from numalign.adapters.local.state_files import StateDirectory
from numalign.apps.agent import events as ev
from numalign.apps.agent import saved
from numalign.apps.agent.driver import Agent
from numalign.apps.agent.runtimes.decide_only import DecideOnly
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.starting.takeover import take_up
from numalign.core.errors import WireError


@pytest.fixture
def host():
    found = Host()
    refused(found, "p")
    return found


def test_what_was_kept_comes_back_for_pods_that_are_still_known(host):
    kept = host.state.refusals
    data = refusals.dump(kept)
    assert refusals.load(data, host.state.pods, path="x") == kept
    assert refusals.load(data, {}, path="x") == {}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"version":2,"refusals":[]}', b'{"version":1,"refusals":[{"uid":1}]}'],
)
def test_what_is_no_such_file_is_told(data):
    with pytest.raises(WireError, match=r"^refusals: found .* why pods were refused is forgotten"):
        refusals.load(data, {}, path="refusals")


def started(host, directory):
    files = StateDirectory(directory)
    files.prepare()
    files.write(saved.FILE_NAME, saved.dump(host.state.pods))
    return take_up(host.setup, files, None, 9.0)


def test_a_start_takes_them_up(host, tmp_path):
    (tmp_path / refusals.FILE_NAME).write_bytes(refusals.dump(host.state.refusals))
    taken = started(host, tmp_path)
    assert taken.state.refusals == host.state.refusals and taken.notes() == ()
    assert taken.state.pods["p"].reason == "UnexpectedAdmissionError"
    saved_first = [one.state for one in taken.effects if isinstance(one, ev.Save)]
    assert saved_first, "the state that is saved is the agent's from then on"
    assert all(state.refusals == host.state.refusals for state in saved_first)


@pytest.mark.parametrize("content", [b"broken", None], ids=["damaged", "unreadable"])
def test_a_bad_file_is_noted_and_the_agent_starts_afresh(host, tmp_path, content):
    path = tmp_path / refusals.FILE_NAME
    path.mkdir() if content is None else path.write_bytes(content)
    taken = started(host, tmp_path)
    assert taken.state.refusals == {} and "p" in taken.state.pods
    [note] = taken.notes()
    assert refusals.FILE_NAME in note


def test_the_driver_writes_them_and_a_full_disk_is_only_a_problem(host, tmp_path):
    files = StateDirectory(tmp_path)
    files.prepare()
    agent = Agent(host.setup, None, files, DecideOnly(tmp_path), None, lambda: 0.0)
    agent.begin(replace(host.state, refusals={}))
    effect = ev.SaveRefusals(host.state.refusals)
    asyncio.run(agent._carry_out([effect]))
    data = (tmp_path / refusals.FILE_NAME).read_bytes()
    assert refusals.load(data, host.state.pods, path="x") == host.state.refusals
    (tmp_path / refusals.FILE_NAME).unlink()
    (tmp_path / refusals.FILE_NAME).mkdir()
    (tmp_path / refusals.FILE_NAME / "in-the-way").touch()
    asyncio.run(agent._carry_out([ev.SaveRefusals({})]))
    assert any(refusals.FILE_NAME in problem for problem in agent.health())
