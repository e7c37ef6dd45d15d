"""Pods as v1.Pod, the host as JSON, and the kubelet's metrics, from states of the real step."""

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.core.hosts import GI
from tests.web.in_memory_agent import GPU, InMemoryAgent, manifest

from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.notes import PodAdmitted, PodRejected
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import notes_of, pod_list, pod_view, time_text
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.devices.plugin_answer import Allocation, Mount
from numalign.core.pod import Pod
from numalign.core.settings import Version
from numalign.core.values.sets import parse_list
from numalign.wire.pods.manifests import load_all


def record_of(value):
    import json

    found = load_all(json.dumps(value).encode(), source="test")[0]
    found.metadata.uid = found.metadata.uid or f"uid-{found.metadata.name}"
    return found


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


def submit(agent, value):
    return asyncio.run(agent.submit(record_of(value)))


def view(agent, name):
    return msgspec.to_builtins(pod_view(agent.setup, agent.state, f"uid-{name}"))


def node(agent):
    return msgspec.to_builtins(node_view(agent.setup, agent.state, agent.machine))


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
        "memory": [{"type": "memory", "nodes": [0], "sizeBytes": GI}],
        "devices": {GPU: ["g0"]},
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


def test_times_are_written_as_kubernetes_does():
    assert time_text(0.9) == "1970-01-01T00:00:00Z"
    assert time_text(None) is None


def test_a_node_shows_who_has_its_cpus_and_memory(agent):
    submit(agent, manifest(gpus=1))
    first, second = node(agent)["nodes"]
    assert first["cpus"] == {
        "all": "0-3,8-11",
        "exclusive": "2,10",
        "shared": "0-1,3,8-9,11",
        "free": "3,8-9,11",
        "reserved": "0-1",
    }
    (occupant,) = first["occupants"]
    assert (occupant["pod"], occupant["container"], occupant["cpus"]) == ("web", "main", "2,10")
    assert first["memory"][0]["usedBytes"] == GI
    assert second["occupants"] == []
    holders = {d["id"]: d["holder"] and d["holder"]["pod"] for d in node(agent)["devices"]}
    assert holders == {"g0": "web", "g1": None, "g2": None, "g3": None}


def test_totals_are_quantities(agent):
    submit(agent, manifest(cpu="500m"))
    shown = node(agent)
    assert shown["allocatable"]["cpu"] == "14"
    assert shown["requested"] == {"pods": "1", "cpu": "500m", "memory": "1Gi"}
    assert shown["reserved"]["cpus"] == "0-1"


@pytest.mark.parametrize("options", [(), ("full-pcpus-only",), ("strict-cpu-reservation",)])
@pytest.mark.parametrize("filled", [(), ("2",), ("4", "6"), ("3", "500m")])
def test_the_largest_shape_of_each_node_is_exact(tmp_path, options, filled):
    agent = InMemoryAgent(tmp_path, cpu_options=options)
    for number, cpu in enumerate(filled):
        submit(agent, manifest(f"p{number}", cpu=cpu))
    shapes = node(agent)["largest"]
    best = max(shape["cpus"] for shape in shapes)
    memory = max(s["memory"]["memory"] for s in shapes if s["cpus"] == best)
    before = agent.state
    assert submit(agent, manifest("fits", cpu=str(best), memory=str(memory))).accepted
    step_cpus = 2 if options == ("full-pcpus-only",) else 1
    agent.state = before
    assert not submit(agent, manifest("wider", cpu=str(best + step_cpus))).accepted
    agent.state = before
    larger = max(s["memory"]["memory"] for s in shapes) + 4096
    assert not submit(agent, manifest("larger", cpu=str(best), memory=str(larger))).accepted


def test_with_whole_cores_only_the_half_free_core_does_not_count(tmp_path):
    agent = InMemoryAgent(tmp_path, reserved="0", cpu_options=["full-pcpus-only"])
    assert [shape["cpus"] for shape in node(agent)["largest"]] == [6, 8]


def test_a_full_host_has_no_shape_left(tmp_path):
    agent = InMemoryAgent(tmp_path)
    for name in ("a", "b"):
        submit(agent, manifest(name, cpu="6" if name == "a" else "8"))
    assert [shape["cpus"] for shape in node(agent)["largest"]] == [0, 0]


def test_without_a_memory_manager_only_the_total_bounds_memory(tmp_path):
    agent = InMemoryAgent(tmp_path, memory=False)
    submit(agent, manifest())
    first = node(agent)["nodes"][0]
    assert first["memory"] == [] and first["memoryGroup"] == [0]
    assert node(agent)["largest"][0]["memory"]["memory"] == 127 * GI


# Metrics.


def lines(agent, state=None):
    text = agent.metrics.text(state or agent.state).decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_metrics_have_the_kubelets_names_and_count_decisions(agent):
    submit(agent, manifest())
    submit(agent, manifest("other"))
    submit(agent, manifest("big", cpu="9"))
    found = lines(agent)
    assert found["kubelet_topology_manager_admission_requests_total"] == "3.0"
    assert found["kubelet_topology_manager_admission_errors_total"] == "1.0"
    assert found["kubelet_cpu_manager_pinning_requests_total"] == "2.0"
    assert found["kubelet_cpu_manager_pinning_errors_total"] == "0.0"
    assert found["kubelet_memory_manager_pinning_requests_total"] == "2.0"
    assert found["kubelet_cpu_manager_shared_pool_size_millicores"] == "10000.0"
    assert found["kubelet_cpu_manager_exclusive_cpu_allocation_count"] == "4.0"
    assert found['kubelet_cpu_manager_allocation_per_numa{numa_node="0"}'] == "4.0"
    aligned = 'kubelet_container_aligned_compute_resources_count{boundary="%s",scope="container"}'
    assert found[aligned % "numa_node"] == "2.0"
    failed = "kubelet_container_aligned_compute_resources_failure_count"
    assert found[failed + '{boundary="numa_node",scope="container"}'] == "1.0"
    assert found['numalign_decisions_total{outcome="rejected",reason="TopologyAffinityError"}']
    assert found['numalign_pods{phase="Failed"}'] == "1.0"


def test_refusals_are_counted_by_the_reasons_that_the_kubelet_names(agent):
    submit(agent, manifest("big", cpu="9"))
    note = PodRejected(Pod(uid="x", name="x"), "SMTAlignmentError")
    agent.metrics.note(note, agent.state)
    found = lines(agent)
    name = 'kubelet_admission_rejections_total{reason="%s"}'
    assert found[name % "TopologyAffinityError"] == "1.0"
    assert found[name % "Other"] == "1.0"


def test_calls_of_the_podresources_api_are_counted(agent):
    agent.metrics.asked("v1", "list", failed=False)
    agent.metrics.asked("v1", "get", failed=True)
    agent.metrics.asked("v1alpha1", "list", failed=False)
    found = lines(agent)
    name = 'kubelet_pod_resources_endpoint_%s{server_api_version="%s"}'
    assert found[name % ("requests_total", "v1")] == "2.0"
    assert found[name % ("requests_total", "v1alpha1")] == "1.0"
    assert found[name % ("requests_list", "v1")] == "1.0"
    assert found[name % ("requests_get", "v1")] == "1.0"
    assert found[name % ("errors_get", "v1")] == "1.0"
    assert name % ("requests_list", "v1alpha1") not in found


def test_1_37_has_other_names_and_counts_where_resources_are_set(tmp_path):
    agent = InMemoryAgent(
        tmp_path, gates={"PodLevelResourceManagers": True}, scope="pod", version=Version.V1_37
    )
    assert submit(agent, manifest(cpu="2")).accepted
    found = lines(agent)
    given = 'kubelet_resource_manager_allocations_total{resource_name="cpu",source="node"}'
    assert found[given] == "1.0"
    held = "kubelet_resource_manager_container_assignments_total"
    assert found[held + '{assignment_type="node_exclusive",resource_name="cpu"}'] == "1.0"
    modes = 'kubelet_pod_level_resources_admission_total{config_mode="container_level"'
    assert found[modes + ',qos_class="guaranteed"}'] == "1.0"


def test_counters_that_do_not_end_in_total_are_counters_too(agent):
    text = agent.metrics.text(agent.state).decode()
    assert "# TYPE kubelet_container_aligned_compute_resources_count counter\n" in text
    assert "untyped" not in text and "_created" not in text
    assert "resource_manager_" not in text


def test_whole_cores_are_counted_only_with_the_option(tmp_path):
    agent = InMemoryAgent(tmp_path, cpu_options=["full-pcpus-only"])
    submit(agent, manifest())
    submit(agent, manifest("odd", cpu="3"))
    found = lines(agent)
    core = '{boundary="physical_cpu",scope="container"}'
    assert found["kubelet_container_aligned_compute_resources_count" + core] == "1.0"
    assert found["kubelet_container_aligned_compute_resources_failure_count" + core] == "1.0"
    assert found["kubelet_cpu_manager_pinning_errors_total"] == "1.0"


def test_durations_fall_into_the_kubelets_buckets(agent):
    note = PodAdmitted(Pod(uid="u", name="p"), Trace())
    agent.metrics.note(note, agent.state, 0.0039)
    agent.metrics.allocated(GPU, 0.02)
    agent.metrics.registered(GPU)
    found = lines(agent)
    name = "kubelet_topology_manager_admission_duration_ms"
    assert found[name + '_bucket{le="1.6"}'] == "0.0"
    assert found[name + '_bucket{le="3.2"}'] == "1.0"  # 3 whole milliseconds
    assert found[name + "_sum"] == "3.0"
    label = 'resource_name="example.com/gpu"'
    seconds = "kubelet_device_plugin_alloc_duration_seconds"
    assert found[f'{seconds}_bucket{{le="0.025",{label}}}'] == "1.0"
    assert found[f"kubelet_device_plugin_registration_total{{{label}}}"] == "1.0"


def test_a_flood_of_names_does_not_grow_the_metrics_for_ever(agent):
    for number in range(3_000):
        agent.metrics.registered(f"r{number}")
    assert sum(key.startswith("kubelet_device_plugin_reg") for key in lines(agent)) == 1_000


def test_pods_with_resources_of_their_own_are_counted_by_source(tmp_path):
    gates = {"PodLevelResourceManagers": True}
    agent = InMemoryAgent(tmp_path, gates=gates, scope="pod")
    value = manifest("own", cpu="1")
    limits = {"cpu": "4", "memory": "2Gi"}
    value["spec"]["resources"] = {"limits": limits}
    value["spec"]["containers"].append({"name": "rest"})
    assert submit(agent, value).accepted
    found = lines(agent)
    cpu = 'resource_manager_container_assignments{assignment_type="%s",resource_name="cpu"}'
    assert found[cpu % "pod_exclusive"] == "1.0"
    assert found[cpu % "pod_shared"] == "1.0"
    assert found['resource_manager_allocations_total{resource_name="cpu",source="pod"}'] == "1.0"
    placed = view(agent, "own")["numalign"]
    assert parse_list(placed["podCpus"]).bit_count() == 4
    assert placed["podMemory"][0]["sizeBytes"] == 2 * GI


def test_gauges_follow_the_state_that_is_asked_for(agent):
    empty = agent.state
    submit(agent, manifest())
    name = "kubelet_cpu_manager_exclusive_cpu_allocation_count"
    assert lines(agent)[name] == "2.0"
    assert lines(agent, empty)[name] == "0.0"


def test_a_new_count_begins_with_nothing(agent):
    text = AgentMetrics(agent.setup).text(agent.state).decode()
    assert "kubelet_topology_manager_admission_requests_total 0.0\n" in text
