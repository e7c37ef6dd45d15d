"""Admission: container by container or as a whole, and nothing is rolled back."""

from tests.core.hosts import Driver, container, machine, pod, settings
from tests.core.snapshots import gpus

from numalign.core.kubelet.admission.admission import NOT_ALIGNED, PROVIDERS, admit
from numalign.core.kubelet.decisions import (
    Admitted,
    AllocateStep,
    MergeStep,
    Reason,
    Rejected,
    Trace,
)

GPU = "example.com/gpu"


def nodes_of(driver, placement):
    return driver.host.cpu_topology.nodes_of(placement.cpus)


def test_in_container_scope_each_container_is_aligned_by_itself():
    driver = Driver(settings("single-numa-node"), machine())
    found = driver.admit(pod("p", container("a", 6, "1Gi"), container("b", 6, "1Gi")))
    assert [nodes_of(driver, placement) for placement in found.placements] == [0b01, 0b10]


def test_in_pod_scope_all_containers_must_fit_together():
    driver = Driver(settings("single-numa-node", scope="pod"), machine())
    found = driver.admit(pod("p", container("a", 6, "1Gi"), container("b", 6, "1Gi")))
    assert found == Rejected(Reason.TOPOLOGY_AFFINITY, NOT_ALIGNED)


def test_what_was_given_before_a_refusal_stays_noted_until_the_next_admission():
    driver = Driver(settings("single-numa-node"), machine())
    refused = driver.admit(pod("p", container("a", 6, "1Gi"), container("b", 9, "1Gi")))
    assert refused.container == "b"
    assert "a" in driver.state.cpu.entries["p"]
    assert "p" not in driver.state.pods
    assert isinstance(driver.admit(pod("q", container("a", 7, "1Gi"))), Admitted)
    assert "p" not in driver.state.cpu.entries


def test_devices_are_given_before_cpus_and_cpus_before_memory():
    driver = Driver(settings("best-effort"), machine(), {GPU: gpus(0)})
    trace = Trace()
    admit(driver.host, driver.state, pod("p", container("c", 1, "1Gi", gpu=1)), trace=trace)
    merged, *given = trace.steps
    assert isinstance(merged, MergeStep)
    assert given == [AllocateStep("c", provider) for provider in PROVIDERS]


def test_a_failed_allocation_is_told_in_the_kubelets_words_and_by_whom():
    driver = Driver(settings("none"), machine())
    found = driver.admit(pod("p", container("c", 16, "1Gi")))
    assert found.reason is Reason.UNEXPECTED
    assert found.provider == "cpu_manager"
    assert found.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=16, "
        "available=15, which is unexpected"
    )
