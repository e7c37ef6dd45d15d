"""Refusals of the topology policy in words."""

from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import gpus, snapshot, why

from numalign.core.explain.explain import Step

GPU = "example.com/gpu"


def test_one_resource_alone_tells_how_much_is_missing_on_one_node():
    busy = [pod(uid, container("c", 5, "1Gi")) for uid in "ab"]
    host = snapshot(settings("single-numa-node"), machine(), *busy)
    found = why(host, pod("p", container("c", 4, "1Gi")))
    assert found.resources == ("cpu",)
    assert found.sentence.endswith("under single-numa-node all must come from one node: 1 too few.")


def test_two_resources_on_different_nodes_are_both_named():
    host = snapshot(
        settings("single-numa-node"),
        machine(),
        pod("a", container("c", 7, "1Gi")),
        plugins={GPU: gpus(0)},
    )
    found = why(host, pod("p", container("c", 2, "1Gi", gpu=1)))
    assert found.step is Step.MERGE
    assert found.resources == (GPU, "cpu")
    assert "1 example.com/gpu, which could come from NUMA node 0" in found.sentence
    assert "2 exclusive CPUs, which could come from NUMA node 1" in found.sentence
    assert found.facts[-1] == "Without any other pod the host would admit it."


def test_what_is_missing_on_the_whole_host_is_told_with_the_sick_devices():
    host = snapshot(settings("restricted"), machine(), plugins={GPU: gpus(0, 1, sick={1})})
    found = why(host, pod("p", container("c", 1, "1Gi", gpu=2)))
    assert found.resources == (GPU,)
    assert "(1 device unhealthy): 1 too few on the whole host" in found.sentence


def test_under_restricted_the_width_of_the_empty_host_is_told():
    busy = [pod(uid, container("c", 5, "1Gi")) for uid in "ab"]
    host = snapshot(settings("restricted"), machine(), *busy)
    found = why(host, pod("p", container("c", 4, "1Gi")))
    assert "on the empty host 1 node would do, now none has enough by itself" in found.sentence


def test_resources_that_do_not_conflict_are_facts_beside_it():
    host = snapshot(settings("single-numa-node"), machine())
    found = why(host, pod("p", container("c", 9, "1Gi")))
    assert "memory: 1 GiB of memory asked, node 0 has 15 GiB free, node 1 has 16 GiB." in (
        found.facts
    )
