"""Every kind of wrong state is told, and a right one is not."""

from dataclasses import replace

import pytest
from tests.core.hosts import Driver, container, machine, pod, settings

from numalign.core.kubelet.devices.devices import Device, Held, SavedDevices, device_resource
from numalign.core.kubelet.state_checks import cpu_breaches, device_breaches, memory_breaches

GPU = "example.com/gpu"


@pytest.fixture
def driver():
    found = Driver(settings(), machine(), {GPU: [Device("g0", (0,)), Device("g1", (1,))]})
    for name in ("a", "b"):
        found.admit(pod(name, container("c", 2, "1Gi", gpu=1)))
    return found


def test_a_right_state_has_no_breach(driver):
    state = driver.state
    assert not [*cpu_breaches(driver.host, state.cpu), *memory_breaches(driver.host, state.memory)]
    assert not list(device_breaches(SavedDevices(state.devices.entries, state.devices.resources)))


def cpu_texts(driver, **changes):
    return list(cpu_breaches(driver.host, replace(driver.state.cpu, **changes)))


def test_a_cpu_in_two_hands_is_told(driver):
    uids = list(driver.state.cpu.entries)
    entries = dict(driver.state.cpu.entries)
    entries[uids[1]] = entries[uids[0]]
    found = cpu_texts(driver, entries=entries)
    assert any(f"belong to pod {uids[0]} and to pod {uids[1]}" in text for text in found)
    assert any("are lost" in text for text in found)
    shared = driver.state.cpu.shared | entries[uids[0]]["c"]
    assert any("to the shared pool and to pod" in t for t in cpu_texts(driver, shared=shared))


def test_containers_of_one_pod_may_share(driver):
    uid, own = next(iter(driver.state.cpu.entries.items()))
    entries = {**driver.state.cpu.entries, uid: {**own, "init": own["c"]}}
    assert cpu_texts(driver, entries=entries) == []


def test_lost_and_foreign_and_reserved_cpus_are_told(driver):
    shared = driver.state.cpu.shared
    assert cpu_texts(driver, shared=shared & ~(1 << 15)) == [
        "CPUs 15 are lost: no pod and no pool has them"
    ]
    assert cpu_texts(driver, shared=shared | 1 << 99) == ["CPUs 99 are not on this machine"]
    entries = {**driver.state.cpu.entries, "x": {"c": 1}}
    found = cpu_texts(driver, shared=shared & ~1, entries=entries)
    assert found == ["the reserved CPUs 0 were given to pods"]


def test_memory_accounts_that_do_not_add_up_are_told(driver):
    state = driver.state.memory
    uid = next(iter(state.entries))
    without = replace(state, entries={k: v for k, v in state.entries.items() if k != uid})
    found = list(memory_breaches(driver.host, without))
    assert any(text.startswith("memory: the tables count") for text in found)
    assert any("counts" in text and "blocks" in text for text in found)
    node = state.machine[0]
    table = replace(node.tables["memory"], free=1)
    wrong = replace(node, tables={**node.tables, "memory": table})
    found = list(memory_breaches(driver.host, replace(state, machine={**state.machine, 0: wrong})))
    assert any(text.startswith("memory on node 0:") for text in found)


def test_a_device_in_two_hands_and_one_that_is_not_there_are_told():
    held = {"c": {GPU: Held(("g0",), {0: ("g0",)})}}
    saved = SavedDevices({"a": held, "b": held}, {GPU: device_resource([Device("g0", (0,))])})
    assert list(device_breaches(saved)) == [f"{GPU} g0 belongs to pod a and to pod b"]
    saved = SavedDevices({"a": held}, {GPU: device_resource([Device("g1", (0,))])})
    assert list(device_breaches(saved)) == [f"{GPU} g0 of pod a is not healthy or not there"]
