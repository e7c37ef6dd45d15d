"""Pods as v1.Pod, from states of the real step."""

from dataclasses import replace

import msgspec
import pytest
from tests.apps.agent.shown import node, submit, view
from tests.core.hosts import GI
from tests.web.in_memory_agent import GPU, InMemoryAgent, manifest

from numalign.apps.agent.views.pods import notes_of, pod_list, time_text
from numalign.core.kubelet.devices.plugin_answer import Allocation, Mount


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


def test_a_running_pod_shows_its_status_in_kubernetes_words(agent):
    submit(agent, manifest(image="ignored:1"))
    status = view(agent, "web")["status"]
    assert (status["phase"], status["qosClass"]) == ("Running", "Guaranteed")
    assert status["startTime"] == "2030-03-17T17:46:40Z"
    (container,) = status["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": "2030-03-17T17:46:40Z"}}
    assert container["containerID"] == "process://uid-web/main/0"
    assert container["image"] == "ignored:1"
    assert container["ready"] and container["restartCount"] == 0
    assert {c["type"]: c["status"] for c in status["conditions"]} == dict.fromkeys(
        ["PodScheduled", "Initialized", "ContainersReady", "Ready"], "True"
    )


def test_a_placed_pod_shows_its_cpus_memory_devices_and_hint(agent):
    submit(agent, manifest(gpus=1))
    placed = view(agent, "web")["numalign"]
    assert placed["source"] == "api" and placed["deleting"] is False
    main = placed["containers"]["main"]
    assert main == {
        "cpus": "2,10",
        "exclusive": True,
        "cpuNodes": [0],
        "memory": [{"type": "memory", "nodes": [0], "sizeBytes": GI}],
        "memoryNodes": [0],
        "devices": {GPU: ["g0"]},
        "deviceNodes": {GPU: [[0]]},
        "aligned": True,
        "distance": 10.0,
        "hint": {"nodes": [0], "preferred": True},
        "pid": 4242,
    }


def test_a_container_without_cpus_of_its_own_shows_the_shared_pool(agent):
    submit(agent, manifest())
    submit(agent, manifest("small", cpu="500m"))
    main = view(agent, "small")["numalign"]["containers"]["main"]
    assert main["exclusive"] is False
    assert main["cpus"] == "0-1,3-9,11-15"


def test_a_refused_pod_is_failed_with_the_kubelets_words_and_no_containers(agent):
    answer = submit(agent, manifest("big", cpu="9"))
    assert not answer.accepted
    status = view(agent, "big")["status"]
    assert status["phase"] == "Failed"
    assert status["reason"] == "TopologyAffinityError"
    assert status["message"].startswith("Pod was rejected: Resources cannot be allocated")
    assert "containerStatuses" not in status and "conditions" not in status
    assert view(agent, "big")["numalign"]["containers"] == {}


def test_a_crashed_container_waits_and_shows_its_last_run(agent):
    submit(agent, manifest())
    agent.exit("uid-web", "main", 3)
    (container,) = view(agent, "web")["status"]["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert container["lastState"]["terminated"]["reason"] == "Error"
    assert container["restartCount"] == 1
    assert container["containerID"] == "process://uid-web/main/0"
    assert not container["ready"]


def test_an_ended_pod_shows_its_exit_codes_and_holds_nothing(agent):
    value = manifest()
    value["spec"]["restartPolicy"] = "Never"
    submit(agent, value)
    agent.exit("uid-web", "main", 0)
    shown = view(agent, "web")
    (container,) = shown["status"]["containerStatuses"]
    assert shown["status"]["phase"] == "Succeeded"
    assert container["state"]["terminated"]["exitCode"] == 0
    assert container["state"]["terminated"]["reason"] == "Completed"
    assert shown["numalign"]["containers"] == {}
    reasons = {c["type"]: c.get("reason") for c in shown["status"]["conditions"]}
    assert reasons["Ready"] == "PodCompleted"


def test_init_containers_are_told_apart_from_the_others(agent):
    value = manifest()
    limits = {"cpu": "1", "memory": "1Gi"}
    value["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": limits}}]
    submit(agent, value)
    status = view(agent, "web")["status"]
    assert status["phase"] == "Pending"
    assert "running" in status["initContainerStatuses"][0]["state"]
    (container,) = status["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert "containerID" not in container
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions["Initialized"] == "False"
    agent.exit("uid-web", "first", 0)
    conditions = {c["type"]: c["status"] for c in view(agent, "web")["status"]["conditions"]}
    assert conditions["Initialized"] == "True"


def test_a_container_that_has_ended_sits_nowhere(agent):
    value = manifest(limits={"memory": "1Gi"})
    value["spec"]["initContainers"] = [{"name": "first"}]
    submit(agent, value)
    assert view(agent, "web")["numalign"]["containers"]["first"]["cpus"] == "0-15"
    agent.exit("uid-web", "first", 0)
    assert view(agent, "web")["numalign"]["containers"]["first"]["cpus"] == ""
    assert {o["container"] for n in node(agent)["nodes"] for o in n["occupants"]} == {"main"}


def test_what_a_plain_process_does_not_get_is_noted(agent):
    value = manifest()
    value["spec"]["containers"][0]["image"] = "nginx:1"
    submit(agent, value)
    assert view(agent, "web")["numalign"]["notes"] == []
    agent.setup = replace(agent.setup, runs_processes=True)
    known = agent.state.pods["uid-web"]
    answer = Allocation(mounts=(Mount("/c", "/h"),))
    known = replace(known, allocations={("main", "example.com/gpu"): answer})
    assert notes_of(agent.setup, known) == [
        "image nginx:1 not used: the commands run on the host itself",
        "main: of what the plugin of example.com/gpu gives, a plain process does not get "
        "mounts /c; it sees the files of the host",
    ]


def test_values_of_environment_variables_can_be_left_out(agent):
    submit(agent, manifest(env=[{"name": "PASSWORD", "value": "secret"}]))
    shown = msgspec.to_builtins(pod_list(agent.setup, agent.state, env=False))
    assert "secret" not in str(shown)
    assert shown["items"][0]["spec"]["containers"][0]["env"] == [{"name": "PASSWORD"}]
    assert "secret" in str(pod_list(agent.setup, agent.state))


def test_what_a_probe_sends_along_can_be_left_out(agent):
    get = {"port": 80, "httpHeaders": [{"name": "Authorization", "value": "secret"}]}
    document = manifest()
    document["spec"]["containers"][0]["livenessProbe"] = {"httpGet": get}
    submit(agent, document)
    shown = msgspec.to_builtins(pod_list(agent.setup, agent.state, env=False))
    assert "secret" not in str(shown)
    assert "Authorization" in str(shown)
    assert "secret" in str(pod_list(agent.setup, agent.state))


def test_times_are_written_as_kubernetes_does():
    assert time_text(0.9) == "1970-01-01T00:00:00Z"
    assert time_text(None) is None
