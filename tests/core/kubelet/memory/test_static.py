"""The static memory manager: single nodes, groups of nodes, and what init containers leave."""

import pytest
from tests.core.hosts import GI, MI, Driver, container, machine, pod, settings

from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.memory import static
from numalign.core.kubelet.state import Block
from numalign.core.kubelet.topology.hints import Hint

NO_HINT = Hint(None, preferred=False)


def fresh(nodes=3, **options):
    driver = Driver(settings(), machine(nodes=nodes, **options))
    return driver.host.memory, driver.state.memory.machine


def hints(policy, accounts, amount, reusable=None):
    found = static.hint_set(policy, accounts, {"memory": amount}, reusable or {})
    return [] if found is None else [(h.nodes, h.preferred) for h in found.listed()]


def test_a_request_is_preferred_on_as_few_nodes_as_an_empty_machine_needs():
    policy, accounts = fresh(nodes=2)
    assert hints(policy, accounts, 15 * GI) == [(0b01, True), (0b10, True), (0b11, False)]
    assert hints(policy, accounts, 15 * GI + 1) == [(0b10, True), (0b11, False)]
    assert hints(policy, accounts, 17 * GI) == [(0b11, True)]
    assert hints(policy, accounts, 31 * GI + 1) == []


def test_a_node_that_serves_alone_joins_no_group():
    policy, accounts = fresh()
    accounts = static.charged(accounts, 0b001, {"memory": GI}, {})
    assert hints(policy, accounts, 20 * GI) == [(0b110, True)]


def test_nodes_of_a_group_serve_that_group_only():
    policy, accounts = fresh()
    accounts = static.charged(accounts, 0b011, {"memory": 20 * GI}, {})
    assert hints(policy, accounts, GI) == [(0b100, True), (0b011, False)]
    assert hints(policy, accounts, 11 * GI) == [(0b100, True), (0b011, False)]  # all that is left
    assert hints(policy, accounts, 11 * GI + 1) == [(0b100, True)]


def test_memory_is_taken_from_the_lowest_node_upwards():
    _, accounts = fresh()
    after = static.charged(accounts, 0b011, {"memory": 16 * GI}, {})
    assert [after[i].tables["memory"].free for i in (0, 1, 2)] == [0, 15 * GI, 16 * GI]
    assert [after[i].assignments for i in (0, 1, 2)] == [1, 1, 0]
    assert after[0].cells == (0, 1)


def test_released_memory_is_free_again_and_dissolves_the_group():
    policy, accounts = fresh()
    after = static.charged(accounts, 0b011, {"memory": 16 * GI}, {})
    assert static.released(after, [Block((0, 1), "memory", 16 * GI)]) == policy.empty


def test_a_hint_with_too_little_is_widened():
    policy, accounts = fresh(nodes=2)
    request = {"memory": 20 * GI}
    wide = static.chosen_nodes(policy, accounts, request, {}, Hint(0b10, preferred=False))
    assert wide == 0b11
    with pytest.raises(AllocationError, match="failed to get the default NUMA affinity"):
        static.chosen_nodes(policy, accounts, {"memory": 40 * GI}, {}, NO_HINT)


def test_what_an_init_container_had_is_charged_once():
    driver = Driver(settings(), machine())
    driver.admit(pod("p", container("i", 1, "4Gi", init=True), container("c", 1, "3Gi")))
    assert driver.state.memory.machine[0].tables["memory"].reserved == 4 * GI
    sizes = {name: blocks[0].size for name, blocks in driver.state.memory.entries["p"].items()}
    assert sizes == {"i": GI, "c": 3 * GI}


def test_huge_pages_are_counted_apart_from_memory():
    policy, accounts = fresh(nodes=2, hugepages=8)
    request = {"memory": GI, "hugepages-2Mi": 20 * MI}
    found = static.hint_set(policy, accounts, request, {})
    assert [h.nodes for h in found.listed()] == [0b11]
