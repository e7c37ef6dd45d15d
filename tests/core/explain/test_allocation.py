"""Refusals of a manager that was asked to give and could not, in words."""

from tests.core.hosts import container, machine, pod, resources, settings
from tests.core.snapshots import gpus, snapshot, why

GPU = "example.com/gpu"


def test_too_few_cpus_on_the_whole_host_are_counted():
    host = snapshot(settings("none"), machine(), pod("a", container("c", 5, "1Gi")))
    found = why(host, pod("p", container("c", 12, "1Gi")))
    assert (found.provider, found.resources) == ("cpu_manager", ("cpu",))
    assert found.sentence.endswith(
        "asks for 12 exclusive CPUs; node 0 has 2 free, node 1 has 8: 2 too few on the whole host."
    )


def test_what_is_no_whole_core_names_the_nearest_that_are():
    host = snapshot(settings("none", cpu_options=["full-pcpus-only"]), machine())
    found = why(host, pod("p", container("c", 3, "1Gi")))
    assert "by whole cores of 2: 2 or 4 would be whole cores" in found.sentence
    found = why(host, pod("p", container("c", 1, "1Gi")))
    assert "2 would be whole cores" in found.sentence


def test_the_device_that_fails_is_named_and_no_other():
    plugins = {GPU: gpus(0), "example.com/nic": gpus(0, 1)}
    host = snapshot(settings("none"), machine(), plugins=plugins)
    found = why(host, pod("p", container("c", 1, "1Gi", gpu=2, nic=2)))
    assert (found.provider, found.resources) == ("device_manager", (GPU,))
    assert "1 too few on the whole host" in found.sentence


def test_memory_that_the_host_does_not_have_is_counted():
    host = snapshot(settings("none"), machine())
    found = why(host, pod("p", container("c", 1, "32Gi")))
    assert (found.provider, found.resources) == ("memory_manager", ("memory",))
    assert "1 GiB too few on the whole host" in found.sentence


def test_a_shared_pool_that_would_be_empty_is_told_by_its_resource():
    gates = {"PodLevelResourceManagers": True}
    host = snapshot(settings("best-effort", gates=gates, scope="pod"), machine())
    new = pod("p", container("a", 2, "1Gi"), container("b"), own=resources(2, "2Gi"))
    found = why(host, new)
    assert (found.reason, found.resources) == ("EmptyPodSharedPoolError", ("cpu",))
    assert "take all of the cpu: nothing is left for the others" in found.sentence
