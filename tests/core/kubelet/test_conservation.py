"""Whatever comes and goes, nothing is given twice and nothing is lost."""

import random

import pytest
from tests.core.hosts import GI, Driver, container, machine, pod, settings

from numalign.core.errors import StartError
from numalign.core.kubelet import host
from numalign.core.kubelet.decisions import Admitted, Rejected
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.values.sets import ids_of

OPTIONS = [
    [],
    ["full-pcpus-only"],
    ["distribute-cpus-across-numa"],
    ["full-pcpus-only", "distribute-cpus-across-numa"],
    ["strict-cpu-reservation"],
    ["prefer-align-cpus-by-uncorecache"],
    ["distribute-cpus-across-cores"],
    ["align-by-socket"],
]
POLICIES = ["none", "best-effort", "restricted", "single-numa-node"]


def uneven_machine(rng):
    """Nodes whose cores have one or two threads."""
    first = 0
    nodes = []
    for number in range(rng.randint(1, 3)):
        cores = []
        for _ in range(rng.randint(2, 5)):
            threads = rng.randint(1, 2)
            cores.append(CoreInfo(tuple(range(first, first + threads)), number))
            first += threads
        nodes.append(NodeInfo(number, 16 * GI, (), None, tuple(cores)))
    return MachineInfo(tuple(nodes), len(nodes), len(nodes) * 16 * GI)


def random_host(rng, *, safe):
    policy = rng.choice(POLICIES)
    options = rng.choice(OPTIONS)
    if policy == "single-numa-node" and "align-by-socket" in options:
        options = []
    if safe and rng.random() < 0.5:
        info = uneven_machine(rng)
    else:
        info = machine(nodes=rng.choice([1, 2, 4, 8]), cores=rng.choice([2, 4]), hugepages=16)
    configured = settings(
        policy,
        scope=rng.choice(["container", "pod"]),
        safe=safe,
        reserved="0-1",
        cpu_options=options,
        memory=rng.random() < 0.7,
    )
    count = len(info.nodes)
    devices = [Device(f"g{n}", (n % count,)) for n in range(2 * count)]
    devices += [Device(f"h{n}") for n in range(2)]
    return Driver(configured, info, {"example.com/gpu": devices})


def random_pod(rng, number):
    containers = []
    for index in range(rng.randint(0, 2)):
        containers.append(random_container(rng, f"i{index}", init=True, sidecar=rng.random() < 0.4))
    for index in range(rng.randint(1, 2)):
        containers.append(random_container(rng, f"c{index}"))
    return pod(f"p{number}", *containers)


def random_container(rng, name, **kind):
    extra = {"gpu": rng.randint(1, 2)} if rng.random() < 0.3 else {}
    cpu = rng.choice(["500m", 1, 2, 3, 4, 6])
    return container(name, cpu, f"{rng.choice([1, 2, 9, 20])}Gi", **extra, **kind)


def check(driver):
    check_cpus(driver)
    check_memory(driver)
    check_devices(driver)


def check_cpus(driver):
    policy, state = driver.host.cpu, driver.state.cpu
    held = {}
    for uid, containers in state.entries.items():
        mask = 0
        for cpus in containers.values():
            mask |= cpus
        held[uid] = mask
    owners = list(held.values())
    union = state.shared
    for mask in owners:
        assert not mask & union, "a CPU has two owners"
        assert not mask & policy.reserved, "a reserved CPU was given away"
        union |= mask
    assert union == policy.assignable, "a CPU was lost"


def check_memory(driver):
    if driver.host.memory is None:
        return
    blocks = [
        block
        for containers in driver.state.memory.entries.values()
        for found in containers.values()
        for block in found
    ]
    accounts = driver.state.memory.machine
    for name in {name for node in accounts.values() for name in node.tables}:
        tables = [node.tables[name] for node in accounts.values() if name in node.tables]
        given = sum(block.size for block in blocks if block.type == name)
        assert sum(table.reserved for table in tables) == given, "memory accounted twice or lost"
        assert all(table.reserved + table.free == table.allocatable for table in tables)
    for node, account in accounts.items():
        assert account.assignments == sum(1 for block in blocks if node in block.nodes)


def check_devices(driver):
    state = driver.state.devices
    owner = {}
    for uid, containers in state.entries.items():
        for resources in containers.values():
            for name, held in resources.items():
                for device in held.ids:
                    assert owner.setdefault((name, device), uid) == uid, "a device has two owners"
    for name, resource in state.resources.items():
        used = {device for (other, device) in owner if other == name}
        assert used == set(state.in_use.get(name, ()))
        assert set(resource.named(state.busy.get(name, 0))) == used


@pytest.mark.parametrize("safe", [False, True], ids=["kubelet", "safe"])
@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_given_twice_and_nothing_is_lost(seed, safe):
    rng = random.Random(seed)
    driver = random_host(rng, safe=safe)
    for number in range(60):
        if driver.state.pods and rng.random() < 0.35:
            driver.end(rng.choice(sorted(driver.state.pods)))
        else:
            decision = driver.admit(random_pod(rng, number))
            assert isinstance(decision, Admitted | Rejected), decision
            driver.end("nobody")
        check_settled(driver)


def check_settled(driver):
    """What a refused pod held on the way is gone after the next clean-up."""
    driver.state = host.cleaned(driver.host, driver.state)
    check(driver)


@pytest.mark.parametrize("seed", range(40))
def test_a_restart_keeps_every_running_pod_where_it_is_in_the_safe_fidelity(seed):
    rng = random.Random(seed)
    driver = random_host(rng, safe=True)
    for number in range(25):
        driver.admit(random_pod(rng, number))
        if driver.state.pods and rng.random() < 0.3:
            driver.end(rng.choice(sorted(driver.state.pods)))
    check_settled(driver)
    before = driver.state
    try:
        decisions = driver.restart()
    except StartError as error:
        pytest.fail(f"a saved state was refused: {error}")
    assert all(isinstance(d, Admitted) for d in decisions.values())
    check_settled(driver)
    assert driver.state.cpu == before.cpu
    assert driver.state.devices.entries == before.devices.entries
    assert driver.state.memory.machine == before.memory.machine


def test_the_lists_of_node_ids_are_remembered_by_mask():
    assert ids_of(0b1011) == (0, 1, 3)
