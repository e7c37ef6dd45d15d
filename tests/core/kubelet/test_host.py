"""A host from its start to the end of a pod: what is taken up, kept and freed."""

from dataclasses import replace

import pytest
from tests.core.hosts import GI, Driver, container, machine, pod, settings

from numalign.core.errors import StartError
from numalign.core.kubelet import host
from numalign.core.values.sets import parse_list


def running(*pods):
    driver = Driver(settings(), machine())
    for one in pods:
        driver.admit(one)
    return driver


def test_the_topology_manager_is_checked_before_the_cpu_manager():
    wrong = replace(settings("unheard-of"), cpu_policy="unheard-of-too")
    with pytest.raises(StartError, match="unheard-of") as caught:
        host.build(wrong, machine())
    assert caught.value.phase == "topology_manager"


def test_an_ended_pod_holds_its_cpus_and_memory_until_the_host_is_cleaned():
    driver = running(pod("p", container("c", 2, "1Gi")))
    ended = host.ended(driver.state, "p")
    assert "p" in ended.cpu.entries
    assert not ended.pods
    cleaned = host.cleaned(driver.host, ended)
    assert cleaned.cpu.shared == driver.host.cpu_topology.all
    assert cleaned.memory.machine == driver.host.memory.empty


def test_nothing_is_freed_while_the_sources_of_pods_are_awaited():
    driver = running(pod("p", container("c", 2, "1Gi")))
    started = host.start(
        driver.host, cpu=driver.state.cpu, memory=driver.state.memory, running=frozenset()
    )
    assert host.cleaned(driver.host, started) is started
    freed = host.cleaned(driver.host, host.sources_ready(started))
    assert not freed.cpu.entries
    assert not freed.memory.entries


def test_a_container_that_starts_ends_the_memory_of_init_containers_before_it():
    driver = running(pod("p", container("i", 1, "2Gi", init=True), container("c", 1, "1Gi")))
    assert set(driver.state.memory.entries["p"]) == {"i", "c"}
    first = host.container_started(driver.state, "p", "i")
    assert set(first.memory.entries["p"]) == {"i", "c"}
    then = host.container_started(first, "p", "c")
    assert set(then.memory.entries["p"]) == {"c"}
    assert then.memory.machine[0].tables["memory"].free == 14 * GI


def test_a_host_without_a_state_file_starts_with_all_cpus_shared():
    driver = running()
    assert driver.state.cpu.shared == parse_list("0-15")
