"""The trace says what came in, what was merged and what was given."""

import json

from tests.core.hosts import Driver, container, machine, pod, settings

from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.decisions import Admitted, Rejected, Trace
from numalign.core.kubelet.devices.devices import Device
from numalign.core.views.trace import as_data, as_lines, lines_of


def traced(driver, new):
    trace = Trace()
    driver.state, decision = admit(driver.host, driver.state, new, trace=trace)
    return decision, trace


def gpu_host(policy="restricted", nodes=2):
    devices = [Device(f"g{n}", (1,)) for n in range(2)]
    options = {"max-allowable-numa-nodes": "64"}
    configured = settings(policy, topology_options=options)
    return Driver(configured, machine(nodes=nodes), {"example.com/gpu": devices})


def test_an_admitted_pod_leaves_one_merge_and_three_allocations():
    decision, trace = traced(gpu_host(), pod("p", container("c", 2, "1Gi", gpu=1)))
    assert isinstance(decision, Admitted)
    assert as_lines(trace) == [
        "container c: device_manager example.com/gpu: {1}+",
        "container c: cpu_manager cpu: {0}+ {1}+ {0-1}-",
        "container c: memory_manager memory: {0}+ {1}+ {0-1}-",
        "container c: merged {1}+, admitted",
        "container c: device_manager gave what was asked",
        "container c: cpu_manager gave what was asked",
        "container c: memory_manager gave what was asked",
    ]


def test_a_refused_pod_leaves_the_hint_that_it_would_have_got():
    host = gpu_host()
    decision, trace = traced(host, pod("p", container("c", 10, "1Gi", gpu=1)))
    assert isinstance(decision, Rejected)
    assert decision.container == "c"
    assert as_lines(trace)[-1] == "container c: merged {1}-, refused"
    merge = as_data(trace)[-1]
    assert merge["admitted"] is False
    assert merge["providers"]["cpu_manager"]["cpu"]["hints"] == [
        {"nodes": [0, 1], "preferred": True}
    ]


def test_a_failing_provider_is_named_with_its_words():
    decision, trace = traced(gpu_host("none"), pod("p", container("c", 2, "1Gi", gpu=3)))
    assert isinstance(decision, Rejected)
    assert decision.provider == "device_manager"
    assert as_lines(trace) == [
        "container c: device_manager requested number of devices unavailable for example.com/gpu. "
        "Requested: 3, Available: 2"
    ]


def test_the_trace_is_plain_json_also_for_a_machine_with_too_many_hints_to_list():
    decision, trace = traced(gpu_host(nodes=34), pod("p", container("c", 2, "1Gi", gpu=1)))
    assert isinstance(decision, Admitted)
    data = json.loads(json.dumps(as_data(trace)))
    memory = data[0]["providers"]["memory_manager"]["memory"]
    assert memory["complete"] is False
    assert {"nodes": [33], "preferred": True} in memory["hints"]


def test_no_trace_is_kept_unless_asked_for_and_the_decision_is_the_same():
    new = pod("p", container("c", 10, "1Gi", gpu=1))
    first, second = gpu_host(), gpu_host()
    with_trace, _ = traced(first, new)
    assert second.admit(new) == with_trace
    assert second.state.cpu == first.state.cpu


def test_a_short_list_shows_the_preferred_hints_first_and_that_there_are_more():
    hints = [{"nodes": [0, 1], "preferred": False}, {"nodes": [2], "preferred": True}]
    answer = {"affinity": "hints", "preferredCount": 1, "hints": hints, "complete": True}
    step = {
        **{"step": "merge", "container": "app", "providers": {"cpu_manager": {"cpu": answer}}},
        **{"merged": hints[1], "admitted": True},
    }
    assert lines_of([step])[0].endswith("cpu: {0-1}- {2}+")
    assert lines_of([step], hints_max=1)[0].endswith("cpu: {2}+ ...")
