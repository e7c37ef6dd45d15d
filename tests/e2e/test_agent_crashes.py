"""Fifty real kills of a real agent at random moments, and what must hold after each."""

import contextlib
import json
import random
import threading
import time

import httpx
import pytest
from tests.apps.agent.processes import AgentProcess, allowed_cpus, manifest

from numalign.core.values.sets import parse_list

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

KILLS = 50


def check(agent):
    """No CPU in two containers, none lost, no process without a record."""
    state = json.loads((agent.state / "cpu_manager_state").read_text())
    shared = parse_list(state["defaultCpuSet"])
    union = shared
    own = {}
    for uid, containers in state.get("entries", {}).items():
        for name, text in containers.items():
            cpus = parse_list(text)
            assert not cpus & union, "a CPU has two owners"
            union |= cpus
            own[uid, name] = cpus
    assert union == parse_list("0-1"), "a CPU was lost"
    known = {pod["metadata"]["uid"] for pod in agent.pod_list().values()}
    for (uid, name), pid in agent.records().items():
        assert uid in known, "a running container without a record"
        text = allowed_cpus(pid)
        if text is not None and (uid, name) in own:
            assert parse_list(text) == own[uid, name], "an exclusive container elsewhere"


def disturb(agent, rng, stop):
    """Creates and deletes pods until told to stop; answers that never come are no matter."""
    number = 0
    while not stop.is_set():
        number += 1
        with contextlib.suppress(httpx.HTTPError, OSError, json.JSONDecodeError, KeyError):
            pods = agent.pod_list()
            if pods and rng.random() < 0.5:
                uid = rng.choice(sorted(pods.values(), key=str))["metadata"]["uid"]
                agent.request("DELETE", f"/pods/{uid}")
            else:
                cpu = rng.choice([None, 1])
                agent.apply(manifest(f"p{rng.randrange(10**6)}-{number}", cpu=cpu))
        time.sleep(0.01)


@pytest.mark.seconds_max(900)  # fifty starts of Python take their time on a busy machine
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_fifty_kills_lose_nothing():
    rng = random.Random(7)
    with AgentProcess() as agent:
        for kill in range(KILLS):
            stop = threading.Event()
            worker = threading.Thread(target=disturb, args=(agent, random.Random(kill), stop))
            worker.start()
            time.sleep(rng.random() * 0.8)
            agent.kill()
            stop.set()
            worker.join()
            agent.start()
            agent.until(lambda: settled(agent), "everything to settle")
            check(agent)
            if kill % 10 == 9:
                for pod in agent.pod_list().values():
                    agent.request("DELETE", f"/pods/{pod['metadata']['uid']}")


def settled(agent):
    """Whether nothing is on its way: every pod runs, has failed, or is gone."""
    pods = agent.pod_list().values()
    return all(pod["status"]["phase"] in {"Running", "Failed"} for pod in pods)


def test_ten_thousand_manifests_are_read_and_the_agent_answers_meanwhile():
    with AgentProcess() as agent:
        for number in range(10_000):
            content = manifest(f"p{number}", cpu=1000)  # refused, so that nothing is run
            (agent.pods / f"{number}.json").write_text(json.dumps(content))
        agent.until(lambda: len(agent.pod_list()) >= 900, "the manifests to be read")
        start = time.monotonic()
        assert agent.request("GET", "/healthz").status_code == 200
        assert time.monotonic() - start < 10
