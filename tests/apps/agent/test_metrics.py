"""The kubelet's metrics, from states of the real step."""

import pytest
from tests.apps.agent.shown import submit, view
from tests.core.hosts import GI
from tests.web.in_memory_agent import GPU, InMemoryAgent, manifest

from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.notes import PodAdmitted, PodRejected
from numalign.core.kubelet.decisions import Trace
from numalign.core.pod import Pod
from numalign.core.settings import Version
from numalign.core.values.sets import parse_list


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


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
