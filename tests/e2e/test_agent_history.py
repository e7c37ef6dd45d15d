"""A real agent that is killed, and whose history is damaged: what it remembers then."""

import os

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

TCP = ("--listen", "127.0.0.1:0")


def moments(agent, count):
    found = []

    def enough():
        found[:] = agent.request("GET", "/history").json()["moments"]
        return len(found) >= count

    agent.until(enough, f"{count} moments")
    return found


def test_decisions_are_there_after_a_kill_and_so_is_what_would_help():
    with AgentProcess(arguments=TCP) as agent:
        agent.apply(manifest("small", cpu="100m"))
        agent.apply(manifest("big", cpu=str(os.cpu_count() * 4)))
        before = moments(agent, 3)
        refused = next(m for m in before if m["what"] == "pod_rejected")
        agent.until(
            lambda: any(m.get("why") for m in moments(agent, 3)), "the reason of the refusal"
        )
        before = moments(agent, 3)
        saved = agent.state / "refusals.json"
        agent.until(lambda: saved.exists() and refused["uid"] in saved.read_text(), "the file")
        agent.kill()
        agent.start()
        after = moments(agent, len(before) + 1)
        assert after[: len(before)] == before
        assert after[len(before)]["what"] == "started"
        then = agent.request("GET", f"/history/{refused['id']}?trace=true").json()
        assert {p["metadata"]["name"] for p in then["pods"]["items"]} >= {"small", "big"}
        why = agent.request("GET", f"/pods/{refused['uid']}/explanation").json()
        assert not why["admitted"]
        assert why["sentence"]
        pods = {p["metadata"]["name"]: p for p in agent.request("GET", "/pods").json()["items"]}
        assert pods["big"]["numalign"]["why"] == next(m["why"] for m in before if m.get("why"))


def test_a_damaged_or_missing_history_keeps_nothing_from_starting():
    with AgentProcess(arguments=TCP) as agent:
        agent.apply(manifest("small", cpu="100m"))
        moments(agent, 2)
        agent.kill()
        for path in (agent.state / "history").glob("*.log"):
            path.write_bytes(b"\x00" * 100 + path.read_bytes()[7:])
        agent.start()
        assert [m["what"] for m in moments(agent, 1)] == ["started"]
        agent.kill()
        for path in (agent.state / "history").glob("*.log"):
            path.unlink()
        (agent.state / "history").rmdir()
        (agent.state / "history").write_text("in the way")
        agent.start()
        agent.until(
            lambda: "not kept" in agent.request("GET", "/history").json().get("problem", ""),
            "the problem",
        )
        assert agent.pod_list()["small"]["status"]["phase"] == "Running"
