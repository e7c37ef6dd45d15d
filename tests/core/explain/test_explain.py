"""Each kind of refusal, made by hand, in words."""

import pytest
from tests.core.hosts import GI, container, machine, pod, resources, settings
from tests.core.snapshots import gpus, snapshot, why

from numalign.core.explain.explain import Step
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.pod import Container, Pod
from numalign.core.settings import Version
from numalign.core.values.quantity import Quantity

GPU = "example.com/gpu"


def test_an_admitted_pod_is_said_to_be_so_with_its_nodes_and_hints():
    found = why(snapshot(settings(), machine()), pod("a", container("app", 2, "1Gi")))
    assert found.step is Step.ADMITTED
    assert found.sentence == ("Pod default/a is admitted with 2 CPUs of its own on NUMA node 0.")
    assert found.reason == ""
    assert found.table.resources == ("cpu", "memory")
    assert [row.cells for row in found.table.rows] == [(True, True), (True, True), (False, False)]


def test_too_many_cpus_for_one_node_tells_what_each_node_has():
    host = snapshot(
        settings("single-numa-node"),
        machine(),
        pod("a", container("c", 5, "1Gi")),
        pod("b", container("c", 5, "1Gi")),
    )
    found = why(host, pod("new", container("app", 4, "1Gi")))
    assert found.sentence == (
        "Pod default/new is refused: container app asks for 4 exclusive CPUs; node 0 has 2 free, "
        "node 1 has 3; under single-numa-node all must come from one node: 1 too few."
    )
    assert (found.step, found.container, found.provider) == (Step.POLICY, "app", "cpu_manager")
    assert found.resources == ("cpu",)
    [demand] = found.demands
    assert (demand.asked, demand.free, demand.free_on_one) == (4, 5, 3)
    assert found.fits_when_empty


def test_more_than_any_node_ever_has_is_said_so():
    found = why(
        snapshot(settings("single-numa-node"), machine()), pod("a", container("app", 9, "1Gi"))
    )
    assert "even on the empty host no node has that much" in found.sentence
    assert found.fits_when_empty is False


def test_more_than_the_host_has_ends_at_the_hints():
    found = why(snapshot(settings(), machine()), pod("a", container("app", 16, "1Gi")))
    assert found.step is Step.HINTS
    assert "1 too few on the whole host" in found.sentence
    assert found.table.nowhere == ("cpu",)


def test_resources_of_different_width_can_never_agree_under_restricted():
    host = snapshot(settings("restricted"), machine(), plugins={GPU: gpus(0, 0, 1, 1)})
    found = why(host, pod("a", container("app", 1, "1Gi", gpu=4)))
    assert found.step is Step.MERGE
    assert found.resources == (GPU,)  # less of the CPU would not help
    assert found.conflict == (GPU, "cpu")
    assert found.sentence == (
        "Pod default/a is refused: container app asks for 4 example.com/gpu, where 2 nodes are "
        "needed, and for 1 exclusive CPU, where one node is enough; restricted wants the very "
        "same nodes for all, so they do not agree."
    )
    assert found.facts[-1] == (
        "example.com/gpu and cpu can never agree on this host: even without any other pod they "
        "do not."
    )


def test_three_resources_that_only_together_conflict_are_all_named():
    plugins = {GPU: gpus(0, 1), "example.com/nic": gpus(1, 2), "example.com/fpga": gpus(0, 2)}
    host = snapshot(settings("single-numa-node"), machine(3, memory=16 * GI), plugins=plugins)
    found = why(host, pod("a", container("app", gpu=1, nic=1, fpga=1)))
    assert set(found.resources) == set(plugins)


def test_pod_scope_speaks_of_the_pod_as_a_whole():
    host = snapshot(settings("single-numa-node", scope="pod"), machine())
    found = why(host, pod("a", container("x", 5, "1Gi"), container("y", 5, "1Gi")))
    assert found.container is None
    assert "the pod as a whole asks for 10 exclusive CPUs" in found.sentence


def test_cpus_that_are_no_whole_cores():
    host = snapshot(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine())
    found = why(host, pod("a", container("app", 3, "1Gi")))
    assert (found.step, found.reason) == (Step.SMT_ALIGNMENT, "SMTAlignmentError")
    assert "2 or 4 would be whole cores" in found.sentence


def test_cores_with_a_reserved_cpu_do_not_count_as_whole():
    host = snapshot(settings("none", cpu_options=("full-pcpus-only",)), machine())
    found = why(host, pod("a", container("app", 16, "1Gi")))
    assert found.step is Step.SMT_ALIGNMENT
    assert "the others have 14 free CPUs: 2 too few" in found.sentence


def test_devices_that_are_gone_or_sick():
    host = snapshot(settings("none"), machine(), plugins={GPU: gpus(0, 1, sick={1})})
    found = why(host, pod("a", container("app", gpu=2)))
    assert (found.step, found.provider, found.resources) == (
        Step.ALLOCATION,
        "device_manager",
        (GPU,),
    )
    assert "1 of 2 are unhealthy: 1 too few on the whole host" in found.sentence


def test_the_second_kind_of_device_is_named_where_the_first_could_be_given():
    plugins = {GPU: gpus(0, 1), "example.com/nic": gpus(0)}
    host = snapshot(settings("none"), machine(), plugins=plugins)
    found = why(host, pod("a", container("app", gpu=1, nic=2)))
    assert found.resources == ("example.com/nic",)


def test_memory_that_no_nodes_may_hold_together():
    host = snapshot(settings("best-effort"), machine(), pod("a", container("c", 1, "10Gi")))
    found = why(host, pod("b", container("app", 1, "17Gi")))
    assert (found.step, found.provider, found.resources) == (
        Step.ALLOCATION,
        "memory_manager",
        ("memory",),
    )
    assert "a node that serves containers alone cannot join others" in found.sentence


def test_a_pod_whose_shared_containers_would_have_nothing():
    configured = settings(
        "best-effort",
        scope="pod",
        version=Version.V1_37,
        gates={"PodLevelResourceManagers": True},
    )
    new = pod("a", container("x", 4, "2Gi"), Container("y"), own=resources(4, "4Gi"))
    found = why(snapshot(configured, machine()), new)
    assert (found.step, found.reason) == (Step.POD_POOL, "EmptyPodSharedPoolError")
    assert found.resources == ("cpu",)


def test_totals_that_are_too_small():
    half = Container("c", resources("7500m", "1Gi"), {})
    host = snapshot(settings(), machine(), Pod("a", "a", "x", (), (half,)))
    found = why(host, Pod("b", "b", "x", (), (Container("c", resources("8", "1Gi"), {}),)))
    assert (found.step, found.reason) == (Step.NODE_FIT, "OutOfcpu")
    assert found.resources == ("cpu",)
    assert found.sentence == (
        "Pod x/b is refused by the totals of the host: the pod asks for 8 CPUs; the host offers "
        "15 CPUs to pods, of which 7.5 CPUs are requested already: 0.5 CPUs too few."
    )


def test_one_pod_too_many():
    host = snapshot(settings(), machine(), pod("a", container()), pods_max=1)
    found = why(host, pod("b", container()))
    assert found.reason == "OutOfpods"
    assert found.resources == ("pods",)


def test_where_the_kubelet_would_crash_the_container_and_page_size_are_named():
    uneven = machine(2, hugepages=4)
    second = NodeInfo(1, uneven.nodes[1].memory_bytes, (), None, uneven.nodes[1].cores)
    info = MachineInfo((uneven.nodes[0], second), 2, uneven.memory_bytes)
    new = pod(
        "a",
        container("first", 1, "1Gi", init=True),
        container("app", 1, "1Gi", hugepages_2Mi="4Mi"),
    )
    found = why(snapshot(settings("restricted"), info), new)
    assert (found.step, found.container) == (Step.BROKEN, "app")
    assert found.resources == ("hugepages-2Mi",)
    assert "crashes" in found.sentence


def test_where_a_cpu_would_be_given_twice_is_said_so():
    cores = tuple(CoreInfo(threads, 0) for threads in ((0, 1), (2, 3), (4,), (5,)))
    info = MachineInfo((NodeInfo(0, 16 * GI, (), None, cores),), 1, 16 * GI)
    host = snapshot(settings("none", memory=False, reserved="0,2"), info)
    found = why(
        host, pod("a", container("i", "500m", "1Gi", init=True), container("app", 4, "1Gi"))
    )
    assert (found.step, found.container, found.resources) == (Step.BROKEN, "app", ("cpu",))
    assert "container app the kubelet gives a CPU that is not free" in found.sentence


@pytest.mark.parametrize("nodes", [1, 2, 8, 12])
def test_the_table_of_hints_stays_small(nodes):
    configured = settings(topology_options={"max-allowable-numa-nodes": "12"})
    host = snapshot(configured, machine(nodes))
    found = why(host, pod("a", container("app", 2, "1Gi"))).table
    assert len(found.rows) <= 16
    assert found.left_out is (nodes > 2)
    assert [row.nodes for row in found.rows[:nodes]] == [1 << i for i in range(nodes)]


def test_an_amount_that_is_no_number_of_bytes():
    amounts = {"cpu": Quantity.of(1), "memory": Quantity.parse("1500m")}
    new = Pod("a", "a", "x", (), (Container("app", amounts, amounts),))
    found = why(snapshot(settings("none"), machine()), new)
    assert (found.step, found.resources) == (Step.ALLOCATION, ("memory",))
    assert "an amount of memory that is no whole number of bytes" in found.sentence
