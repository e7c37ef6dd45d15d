"""Pods with resources of their own: one set of CPUs and memory, split among the containers."""

from tests.core.hosts import GI, Driver, container, machine, pod, resources, settings
from tests.core.kubelet.test_two_fidelities import uneven_topology

from numalign.core.kubelet.admission import pod_level
from numalign.core.kubelet.decisions import Broken, Reason, Rejected
from numalign.core.values.sets import format_list

GATES = {"PodLevelResourceManagers": True}
SETTINGS = settings("best-effort", scope="pod", gates=GATES)


def admitted(*containers, own):
    driver = Driver(SETTINGS, machine())
    decision = driver.admit(pod("p", *containers, own=own))
    return driver, decision


def test_containers_without_fixed_requests_share_what_the_others_leave():
    driver, _ = admitted(container("a", 2, "1Gi"), container("b"), own=resources(5, "3Gi"))
    held = driver.state.cpu.entries["p"]
    assert driver.state.cpu.pod_sets["p"].bit_count() == 5
    assert held["a"].bit_count() == 2
    assert held["b"] == driver.state.cpu.pod_sets["p"] & ~held["a"]
    assert driver.state.memory.entries["p"]["b"][0].size == 2 * GI


def test_nothing_left_for_the_others_is_a_refusal():
    _, decision = admitted(container("a", 2, "1Gi"), container("b"), own=resources(2, "3Gi"))
    assert isinstance(decision, Rejected)
    problem = pod_level.cpu_pool_problem(
        pod("p", container("a", 2, "1Gi"), container("b"), own=resources(2, "3Gi")), SETTINGS
    )
    assert problem == (
        "pod rejected, sum of exclusive container cpu requests equals pod budget, "
        "leaving no cpus for shared containers"
    )


def test_a_sidecar_keeps_its_cpus_and_an_init_container_lends_them():
    driver, _ = admitted(
        container("s", 2, "1Gi", sidecar=True),
        container("i", 2, "1Gi", init=True),
        container("c", 2, "1Gi"),
        own=resources(4, "3Gi"),
    )
    held = driver.state.cpu.entries["p"]
    assert held["i"] == held["c"]
    assert not held["s"] & held["c"]


def test_a_pod_that_cannot_be_split_is_refused_also_where_its_cpus_were_not_free():
    configured = settings("best-effort", scope="pod", memory=False, reserved="0,2", gates=GATES)
    whole = pod("p", container("a", 4, "1Gi"), own=resources(4, "1Gi"))
    assert isinstance(Driver(configured, uneven_topology()).admit(whole), Broken)
    parts = pod("p", container("a", 4, "1Gi"), container("b", 1, "1Gi"), own=resources(4, "1Gi"))
    driver = Driver(configured, uneven_topology())
    assert driver.admit(parts).reason is Reason.UNEXPECTED
    assert format_list(driver.state.cpu.pod_sets["p"]) == "0-3"
