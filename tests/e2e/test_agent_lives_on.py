"""A real agent and what nobody foresaw: the one object fails, and all others go on."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

HALF = "\ud800"  # half of a surrogate pair, as only an escape in JSON can write it
REPLACED = "\ufffd"


def posted(agent, value):
    return agent.request("POST", "/pods", content=json.dumps(value, ensure_ascii=True))


def quick(name, **members):
    return manifest(name, command=("true",), restartPolicy="Never", **members)


def halved(name, member):
    pod = quick(name)
    container = pod["spec"]["containers"][0]
    match member:
        case "command":
            container["command"] = ["/bin/echo", f"a{HALF}b"]
        case "env":
            container["env"] = [{"name": "A", "value": f"a{HALF}b"}]
        case "env name":
            container["env"] = [{"name": f"A{HALF}", "value": "a"}]
        case "label":
            pod["metadata"]["labels"] = {f"a{HALF}": f"b{HALF}"}
        case "annotation":
            pod["metadata"]["annotations"] = {"a": HALF}
        case "working directory":
            container["workingDir"] = f"/{HALF}"
        case "resource":
            container["resources"] = {"limits": {f"example.com/{HALF}": "1"}}
        case "name":
            pod["metadata"]["name"] = f"a{HALF}"
        case "kind":
            pod["kind"] = f"Pod{HALF}"
        case "unknown member":
            pod[f"x{HALF}"] = HALF
    return pod


MEMBERS = (
    "command",
    "env",
    "env name",
    "label",
    "annotation",
    "working directory",
    "resource",
    "name",
    "kind",
    "unknown member",
)


def test_half_a_surrogate_pair_in_any_string_is_replaced_and_ends_nothing():
    with AgentProcess() as agent:
        for number, member in enumerate(MEMBERS):
            answer = posted(agent, halved(f"p{number}", member))
            assert answer.status_code in {201, 400, 422}, (member, answer.text)
            text = json.dumps(halved(f"f{number}", member))
            (agent.pods / f"{number}.json").write_text(text)
        assert posted(agent, quick("after")).status_code == 201
        agent.until_phase("after", "Succeeded")
        agent.until(lambda: "f1" in agent.pod_list(), "the manifests to be read")
        env = agent.pod_list()["f1"]["spec"]["containers"][0]["env"]
        assert env == [{"name": "A", "value": f"a{REPLACED}b"}]
        problems = agent.problems()
        assert all(".json: " in problem for problem in problems), problems
        # And what was saved is read again.
        agent.kill()
        agent.start()
        assert {"p0", "p1", "f1"} <= agent.pod_list().keys()


def test_a_manifest_whose_file_name_is_no_utf8_is_one_problem_and_the_rest_goes_on():
    with AgentProcess() as agent:
        names = (b"a\xff.json", b"b\xed\xa0\x80.json")
        for name in names:
            path = Path(os.fsdecode(bytes(agent.pods) + b"/" + name))
            path.write_text(json.dumps(quick(name[:1].decode())))
        (agent.pods / "good.json").write_text(json.dumps(quick("good")))
        for _ in range(2):
            agent.until_phase("good", "Succeeded")
            # After a restart the pod is known before the directory was read.
            agent.until(agent.problems, "the files to be looked at")
            problems = agent.problems()
            assert [problem.count("rename it") for problem in problems] == [1, 1]
            assert "a\\xff.json" in problems[0]
            assert len(agent.pod_list()) == 1
            agent.kill()
            agent.start()


@pytest.mark.parametrize("where", ["env", "args"])
def test_variables_that_expand_without_end_fail_their_container_and_cost_nothing(where):
    doubled = [{"name": "V0", "value": "x" * 16}]
    doubled += [{"name": f"V{n}", "value": f"$(V{n - 1})" * 4} for n in range(1, 14)]
    bomb = quick("bomb")
    container = bomb["spec"]["containers"][0]
    container["env"] = doubled if where == "env" else doubled[:7]
    if where == "args":
        container["args"] = ["$(V6)" * 2_000 for _ in range(80)]
    with AgentProcess() as agent:
        start = time.monotonic()
        assert posted(agent, bomb).status_code == 201
        agent.until_phase("bomb", "Failed")
        assert time.monotonic() - start < 10
        ended = agent.pod_list()["bomb"]["status"]["containerStatuses"][0]["state"]["terminated"]
        assert "131,071" in ended["message"] or "6 MiB" in ended["message"], ended
        peak = Path(f"/proc/{agent.process.pid}/status").read_text().split("VmHWM:")[1]
        assert int(peak.split()[0]) < 300_000
        assert posted(agent, quick("after")).status_code == 201
        agent.until_phase("after", "Succeeded")


def test_a_bit_that_flipped_in_a_file_of_the_agent_is_told_in_one_line_and_never_a_traceback():
    with AgentProcess() as agent:
        assert posted(agent, quick("a")).status_code == 201
        assert posted(agent, manifest("big", cpu=4_000)).status_code == 422
        agent.until_phase("a", "Succeeded")
        agent.until((agent.state / "refusals.json").exists, "the reason to be kept")
        agent.kill()
        for name in ("refusals.json", *(agent.state / "runs").glob("*/*/exit.json")):
            path = agent.state / name
            path.write_bytes(path.read_bytes().replace(b'"', b'"\xff', 1))
        agent.start()
        assert agent.phase("a") == "Succeeded"
        assert "Traceback" not in agent.said()
        agent.kill()
        path = agent.state / "pods.json"
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b'"uid"', b'"u\xffid"', 1))
        agent.start(wait=False)
        assert agent.process.wait(60) == 1
        assert "pods.json" in agent.said()
        assert "Traceback" not in agent.said()


def test_one_saved_pod_that_cannot_be_taken_up_is_set_aside_and_the_others_go_on():
    from numalign.apps.agent import saved

    with AgentProcess() as agent:
        for name in ("good", "bad", "worse"):
            assert agent.apply(manifest(name)).status_code == 201
            agent.until_phase(name, "Running")
        agent.kill()
        path = agent.state / "pods.json"
        found = json.loads(path.read_bytes())
        pods = {pod["record"]["metadata"]["name"]: pod for pod in found["pods"]}
        container = pods["bad"]["record"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"cpu": "1e"}}
        pods["worse"]["record"]["spec"]["containers"] = 5
        body = json.dumps(list(pods.values())).encode()
        envelope = {"version": 1, "checksum": saved.checksum(body)}
        path.write_bytes(json.dumps(envelope).encode()[:-1] + b', "pods": ' + body + b"}")
        agent.start()
        assert agent.phase("good") == "Running"
        for name in ("bad", "worse"):
            status = agent.pod_list()[name]["status"]
            assert (status["phase"], status["reason"]) == ("Failed", "SavedStateUnusable"), status
        ready = agent.request("GET", "/readyz").json()
        assert any("default/bad" in problem for problem in ready["problems"]), ready
        agent.until(lambda: len(agent.records()) == 1, "what nobody looks after to be ended")
        assert json.loads((agent.state / "pods.set-aside.json").read_bytes())
        for name in ("bad", "worse"):
            assert agent.request("DELETE", "/pods", params={"name": name}).status_code in {200, 202}
        agent.until_well()


def test_more_manifests_than_a_start_would_read_are_refused_and_the_agent_starts_again():
    with AgentProcess(arguments=["--runtime", "none"]) as agent:
        pod = quick("p")
        pod["metadata"]["annotations"] = {"long": "x" * 1_000_000}
        codes = []
        for number in range(60):
            pod["metadata"]["name"] = f"p{number}"
            codes.append(posted(agent, pod).status_code)
        assert codes[0] == 201
        assert codes[-1] == 422
        agent.kill()
        agent.start()
        assert len(agent.pod_list()) == codes.count(201)
        assert agent.request("DELETE", "/pods", params={"name": "p0"}).status_code in {200, 202}
        agent.until(lambda: "p0" not in agent.pod_list(), "p0 to be gone")
        pod["metadata"]["name"] = "again"
        assert posted(agent, pod).status_code == 201


def test_kinds_that_are_lists_and_documents_of_every_form_are_refused_with_400():
    with AgentProcess(arguments=["--runtime", "none"]) as agent:
        texts = [
            "kind: []",
            "kind: {}",
            "[]",
            "5",
            "{kind: Pod, metadata: []}",
            "kind: Pod\nspec: 1",
        ]
        texts += ["kind: List\nitems: 5", "kind: List\nitems: [[]]", "kind: PodList\nitems: {a: 1}"]
        texts += ["kind: Deployment\nspec: []", "kind: Job\nmetadata: 1", "\ufeff", "{", "\x00"]
        for number, text in enumerate(texts):
            answer = agent.request("POST", "/pods", content=text.encode())
            assert answer.status_code == 400, (text, answer.text)
            (agent.pods / f"{number}.yaml").write_text(text)
        (agent.pods / "good.json").write_text(json.dumps(quick("good")))
        agent.until(lambda: "good" in agent.pod_list(), "the good manifest")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(60) == 0
        assert "Traceback" not in agent.said()
