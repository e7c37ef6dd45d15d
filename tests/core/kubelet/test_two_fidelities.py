"""Where the kubelet hurts: what it really does, and what the safe fidelity does instead."""

import random
from dataclasses import replace

import pytest
from tests.core.hosts import GI, MI, Driver, container, machine, pod, resources, settings

from numalign.core.errors import StartError
from numalign.core.kubelet import host
from numalign.core.kubelet.cpu import distribute as cpu_distribute
from numalign.core.kubelet.cpu.pack import PACKED, Strategy, take_packed
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.kubelet.decisions import Admitted, Breakage, Broken, Reason, Rejected
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.settings import ReservedMemory, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import format_list, parse_list


def full_host(*, safe, version=Version.V1_36):
    """Every free core of a host with full-pcpus-only is taken."""
    configured = settings(
        "best-effort",
        safe=safe,
        version=version,
        reserved="0-1",
        memory=False,
        cpu_options=["full-pcpus-only"],
    )
    driver = Driver(configured, machine(nodes=1, cores=4))
    for number in range(3):
        assert isinstance(driver.admit(pod(f"p{number}", container("c", 2, "1Gi"))), Admitted)
    return driver


def test_the_kubelet_refuses_running_pods_of_a_full_host_after_a_restart():
    decision = full_host(safe=False).restart()["p0"]
    assert isinstance(decision, Rejected)
    assert decision.reason is Reason.SMT_ALIGNMENT


def test_kubernetes_1_37_no_longer_refuses_them():
    decisions = full_host(safe=False, version=Version.V1_37).restart()
    assert all(isinstance(d, Admitted) for d in decisions.values())


def test_the_safe_fidelity_keeps_running_pods_of_a_full_host_after_a_restart():
    driver = full_host(safe=True)
    before = driver.state.cpu
    decisions = driver.restart()
    assert all(isinstance(d, Admitted) for d in decisions.values())
    assert driver.state.cpu == before


def strict_full_host(*, safe):
    configured = settings(
        "none", safe=safe, memory=False, cpu_options=["strict-cpu-reservation"], reserved="0-1"
    )
    driver = Driver(configured, machine(nodes=1, cores=4))
    assert isinstance(driver.admit(pod("p", container("c", 6, "1Gi"))), Admitted)
    assert driver.state.cpu.shared == 0
    return driver


def test_the_kubelet_does_not_start_with_an_empty_shared_pool():
    with pytest.raises(StartError, match="default cpuset cannot be empty"):
        strict_full_host(safe=False).restart()


def test_the_safe_fidelity_starts_with_an_empty_shared_pool():
    decisions = strict_full_host(safe=True).restart()
    assert isinstance(decisions["p"], Admitted)


def test_the_safe_fidelity_still_refuses_a_state_that_lost_cpus():
    driver = strict_full_host(safe=True)
    entries = {"p": {"c": parse_list("2-3")}}
    broken = type(driver.state.cpu)("static", 0, entries)
    with pytest.raises(StartError, match="doesn't match with CPUs in state"):
        host.start(driver.host, cpu=broken)


@pytest.mark.parametrize("cores", [3, 6])
def test_cpus_that_came_or_went_beside_the_pods_are_taken_over_only_by_the_safe_fidelity(cores):
    def saved(*, safe):
        driver = Driver(
            settings("best-effort", safe=safe, memory=False, reserved="0"), machine(1, 4)
        )
        driver.admit(pod("p", container("c", 2, "1Gi")))
        other = settings("best-effort", safe=safe, memory=False, reserved="0")
        return driver.state.cpu, host.build(other, machine(1, cores))

    before, now = saved(safe=True)
    after = host.start(now, cpu=before).cpu
    assert after.entries == before.entries
    owned = before.entries["p"]["c"]
    assert after.shared == now.cpu.assignable & ~owned
    before, now = saved(safe=False)
    with pytest.raises(StartError, match="doesn't match with CPUs in state"):
        host.start(now, cpu=before)


def test_cpus_that_a_pod_owns_and_the_machine_lost_are_refused():
    configured = settings("best-effort", safe=True, memory=False, reserved="0")
    driver = Driver(configured, machine(nodes=1, cores=4))
    driver.admit(pod("p", container("c", 2, "1Gi")))
    with pytest.raises(StartError, match="doesn't match with CPUs in state"):
        host.start(host.build(configured, machine(nodes=1, cores=1)), cpu=driver.state.cpu)


POD_LEVEL = {"PodLevelResourceManagers": True}


def pod_level_host(*, safe):
    configured = settings("best-effort", scope="pod", safe=safe, memory=False, gates=POD_LEVEL)
    return Driver(configured, machine(nodes=1, cores=4))


def test_the_kubelet_leaks_the_cpus_of_a_pod_level_pod_at_every_restart():
    driver = pod_level_host(safe=False)
    driver.admit(pod("p", container("c", 2, "1Gi"), own=resources(2, "1Gi")))
    first = driver.state.cpu.pod_sets["p"]
    driver.restart()
    assert driver.state.cpu.pod_sets["p"] != first
    driver.end("p")
    with pytest.raises(StartError, match="doesn't match with CPUs in state"):
        driver.restart()


def test_the_safe_fidelity_keeps_the_cpus_of_a_pod_level_pod():
    driver = pod_level_host(safe=True)
    driver.admit(pod("p", container("c", 2, "1Gi"), own=resources(2, "1Gi")))
    before = driver.state.cpu
    driver.restart()
    assert driver.state.cpu == before
    driver.end("p")
    assert driver.state.cpu.shared == driver.host.cpu.topology.all


UNSPLITTABLE = pod(
    "p",
    container("a", 2, "1Gi"),
    container("b", 1, "1Gi"),
    own=resources(2, "2Gi"),
)


def test_the_kubelet_never_frees_the_cpus_of_a_pod_that_it_cannot_split():
    driver = pod_level_host(safe=False)
    assert isinstance(driver.admit(UNSPLITTABLE), Rejected)
    driver.end("p")
    driver.state = host.cleaned(driver.host, driver.state)
    assert "p" in driver.state.cpu.pod_sets


def test_the_safe_fidelity_gives_a_pod_that_cannot_be_split_nothing():
    driver = pod_level_host(safe=True)
    assert isinstance(driver.admit(UNSPLITTABLE), Rejected)
    assert not driver.state.cpu.pod_sets
    assert driver.state.cpu.shared == driver.host.cpu.topology.all


def uneven_topology():
    """Cores {0,1} {2,3} {4} {5}: CPUs per core, rounded down over all, is 1."""
    cores = (CoreInfo((0, 1), 0), CoreInfo((2, 3), 0), CoreInfo((4,), 0), CoreInfo((5,), 0))
    return MachineInfo((NodeInfo(0, GI, (), (10,), cores),), 1, GI)


def test_the_kubelet_gives_a_cpu_in_use_where_cores_are_uneven():
    topology = cpu_topology(uneven_topology())
    available = parse_list("1,3")
    assert format_list(take_packed(topology, available, 2, PACKED)) == "0-1"


def test_the_safe_fidelity_takes_only_free_cpus_where_cores_are_uneven():
    topology = cpu_topology(uneven_topology())
    available = parse_list("1,3")
    assert format_list(take_packed(topology, available, 2, Strategy(only_free=True))) == "1,3"


def test_an_admission_that_would_give_a_cpu_twice_stops_with_a_statement():
    configured = settings("none", memory=False, reserved="0,2")
    driver = Driver(configured, uneven_topology())
    before = driver.state
    decision = driver.admit(pod("p", container("c", 4, "1Gi")))
    assert isinstance(decision, Broken)
    assert decision.kind is Breakage.CPU_GIVEN_TWICE
    assert "0,2" in decision.statement
    assert driver.state is before
    safe = Driver(settings("none", memory=False, reserved="0,2", safe=True), uneven_topology())
    given = safe.admit(pod("p", container("c", 4, "1Gi")))
    assert format_list(given.placements[0].cpus) == "1,3-5"


def hugepages_on_one_node(*, safe):
    plain, with_pages = machine(nodes=2), machine(nodes=2, hugepages=64)
    nodes = (with_pages.nodes[0], plain.nodes[1])
    return Driver(settings("best-effort", safe=safe), MachineInfo(nodes, 2, 32 * GI))


HUGE = pod("p", container("c", 1, "1Gi", **{"hugepages_2Mi": str(64 * MI)}))


def test_the_kubelet_crashes_on_a_page_size_that_a_node_lacks():
    decision = hugepages_on_one_node(safe=False).admit(HUGE)
    assert isinstance(decision, Broken)
    assert decision.kind is Breakage.CRASH
    assert "hugepages-2Mi" in decision.statement
    assert "node 1" in decision.statement


def test_the_safe_fidelity_takes_a_missing_page_size_for_none():
    decision = hugepages_on_one_node(safe=True).admit(HUGE)
    assert isinstance(decision, Admitted)
    assert {block.nodes for block in decision.placements[0].memory} == {(0,)}


# Four nodes of three cores; with 14 CPUs wanted, whole cores run short on some nodes.
HALF_CORES = parse_list("0-1,3-8,10-11,14-17,20-22")


def test_the_kubelet_never_answers_where_whole_cores_cannot_be_dealt_out():
    topology = cpu_topology(machine(nodes=4, cores=3))
    how = cpu_distribute.Distribution(group=2)
    with pytest.raises(cpu_distribute.EndlessLoopError):
        cpu_distribute.take_distributed(topology, HALF_CORES, 14, how)


def test_the_safe_fidelity_always_answers_with_free_cpus():
    topology = cpu_topology(machine(nodes=4, cores=3))
    rng = random.Random(1)
    how = cpu_distribute.Distribution(group=2, safe=True)
    for _ in range(300):
        available = rng.getrandbits(24)
        if available.bit_count() < 2:
            continue
        count = rng.randrange(2, available.bit_count() + 1, 2)
        cpus = cpu_distribute.take_distributed(topology, available, count, how)
        assert cpus.bit_count() == count
        assert not cpus & ~available


def init_device_host(*, safe):
    devices = [Device(f"d{n}", (n % 2,)) for n in range(4)]
    configured = settings("restricted", scope="pod", safe=safe, memory=False)
    driver = Driver(configured, machine(nodes=2), {"example.com/gpu": devices})
    first = container("i", "500m", "1Gi", init=True, gpu=1)
    assert isinstance(driver.admit(pod("p", first, container("c", "500m", "1Gi", gpu=2))), Admitted)
    return driver


def test_running_pods_keep_their_devices_after_a_restart_in_the_safe_fidelity():
    driver = init_device_host(safe=True)
    before = driver.state.devices.entries
    assert isinstance(driver.restart()["p"], Admitted)
    assert driver.state.devices.entries == before


def grouped_host(*, safe):
    """A pod on both nodes together, then one whose device pulls it to node 1 alone."""
    devices = [Device("g0", (1,))]
    driver = Driver(settings("best-effort", safe=safe), machine(), {"example.com/gpu": devices})
    assert isinstance(driver.admit(pod("wide", container("c", 1, "20Gi"))), Admitted)
    decision = driver.admit(pod("narrow", container("c", 1, "1Gi", gpu=1)))
    assert isinstance(decision, Admitted)
    return driver, decision.placements[0].memory[0].nodes


def test_the_kubelet_puts_memory_inside_a_group_and_then_refuses_to_start():
    driver, nodes = grouped_host(safe=False)
    assert nodes == (1,)
    with pytest.raises(StartError, match="the expected machine state is different"):
        driver.restart()


def test_the_safe_fidelity_widens_such_a_request_to_the_group_and_starts_again():
    driver, nodes = grouped_host(safe=True)
    assert nodes == (0, 1)
    assert all(isinstance(d, Admitted) for d in driver.restart().values())


def test_the_kubelet_does_not_start_once_the_machine_has_another_amount_of_memory():
    driver = Driver(settings("best-effort", safe=False), machine(memory=16 * GI))
    driver.admit(pod("p", container("c", 1, "4Gi")))
    grown = host.build(driver.host.settings, machine(memory=17 * GI))
    with pytest.raises(StartError, match="the expected machine state is different"):
        host.start(grown, cpu=driver.state.cpu, memory=driver.state.memory)


@pytest.mark.parametrize("size", [8 * GI, 32 * GI])
def test_the_safe_fidelity_takes_over_an_amount_that_still_covers_what_is_held(size):
    driver = Driver(settings("best-effort", safe=True), machine(memory=16 * GI))
    driver.admit(pod("p", container("c", 1, "4Gi")))
    changed = host.build(driver.host.settings, machine(memory=size))
    state = host.start(changed, cpu=driver.state.cpu, memory=driver.state.memory)
    assert state.memory.entries == driver.state.memory.entries
    held = state.memory.machine[0].tables["memory"]
    assert (held.total, held.reserved) == (size, 4 * GI)
    assert held.free == held.allocatable - 4 * GI


def test_the_safe_fidelity_says_both_amounts_where_too_little_is_left():
    driver = Driver(settings("best-effort", safe=True), machine(memory=16 * GI))
    driver.admit(pod("p", container("c", 1, "12Gi")))
    shrunk = host.build(driver.host.settings, machine(memory=8 * GI))
    with pytest.raises(StartError, match="NUMA node 0: 16 GiB at the last start, 8 GiB now"):
        host.start(shrunk, cpu=driver.state.cpu, memory=driver.state.memory)


def test_the_safe_fidelity_refuses_accounts_that_do_not_match_what_is_held():
    driver = Driver(settings("best-effort", safe=True), machine(memory=16 * GI))
    driver.admit(pod("p", container("c", 1, "4Gi")))
    forgotten = replace(driver.state.memory, entries={})
    with pytest.raises(StartError, match="the expected machine state is different"):
        host.start(driver.host, cpu=driver.state.cpu, memory=forgotten)


def over_reserved_host(*, safe, nodes=2):
    """17 GiB are reserved on node 0, which has 16."""
    amount = Quantity.of(17 * GI)
    configured = replace(
        settings(
            "best-effort",
            scope="pod",
            safe=safe,
            topology_options={"max-allowable-numa-nodes": "64"},
        ),
        reserved_memory=(ReservedMemory(0, "memory", amount),),
        node_allocatable_reservation={"cpu": Quantity.of(1), "memory": amount},
    )
    return Driver(configured, machine(nodes=nodes))


def memory_nodes(driver, amount):
    decision = driver.admit(pod(f"p-{amount}", container("c", 1, amount)))
    return decision.placements[0].memory[0].nodes


def test_the_kubelet_takes_an_over_reserved_node_for_bottomless():
    driver = over_reserved_host(safe=False)
    assert driver.state.memory.machine[0].tables["memory"].free == 2**64 - GI
    assert memory_nodes(driver, "1000Gi") == (0,)


def test_in_the_kubelet_two_nodes_have_less_than_one_where_their_sum_wraps_around():
    driver = over_reserved_host(safe=False)
    policy, accounts = driver.host.memory, driver.state.memory.machine
    narrow = memory_static.hint_set(policy, accounts, {"memory": 15 * GI + 1}, {})
    assert list(narrow.listed()) == [Hint(0b01, preferred=True), Hint(0b10, preferred=True)]
    wide = memory_static.hint_set(policy, accounts, {"memory": 15 * GI}, {})
    assert list(wide.listed())[2:] == [Hint(0b11, preferred=False)]


def test_in_the_safe_fidelity_an_over_reserved_node_has_nothing_to_give():
    driver = over_reserved_host(safe=True)
    assert driver.state.memory.machine[0].tables["memory"].free == 0
    assert memory_nodes(driver, "10Gi") == (1,)
    assert isinstance(driver.admit(pod("more", container("c", 1, "7Gi"))), Rejected)


def test_an_over_reserved_machine_with_too_many_sets_of_nodes_stops_with_a_statement():
    driver = over_reserved_host(safe=False, nodes=13)
    decision = driver.admit(pod("p", container("c", 1, "1Gi")))
    assert isinstance(decision, Broken)
    assert decision.kind is Breakage.ENDLESS_LOOP
    assert "8191 sets of 13 NUMA nodes" in decision.statement
