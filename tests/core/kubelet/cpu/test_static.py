"""The static CPU manager: hints, who gets which CPUs, and what goes back."""

import pytest
from tests.core.hosts import Driver, container, machine, pod, settings

from numalign.core.errors import StartError
from numalign.core.kubelet.cpu import static
from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.state import CpuState
from numalign.core.kubelet.topology.hints import Affinity, Hint
from numalign.core.values.sets import format_list, parse_list


def fresh(*options, reserved="0"):
    driver = Driver(settings(memory=False, cpu_options=options, reserved=reserved), machine())
    return driver.host.cpu, driver.state.cpu


def test_a_hint_is_preferred_if_an_empty_machine_would_need_no_fewer_nodes():
    policy, _ = fresh()
    found = static.hint_set(policy, parse_list("4-7,12-15"), 0, 6)
    assert list(found.listed()) == [Hint(0b11, preferred=False)]
    assert static.hint_set(policy, parse_list("4-7,12-15"), 0, 9) is Affinity.NOWHERE


def test_what_an_init_container_left_binds_the_hints_to_its_nodes():
    policy, _ = fresh()
    found = static.hint_set(policy, parse_list("4-7,12-15"), parse_list("12-13"), 2)
    assert [hint.nodes for hint in found.listed()] == [0b10, 0b11]


def test_cpus_come_from_the_hinted_nodes_first_and_never_from_the_reserved():
    policy, state = fresh()
    on_second = static.taken(policy, state, Hint(0b10, preferred=True), 0, 4)
    assert format_list(on_second) == "8-11"
    wide = static.taken(policy, state, Hint(0b01, preferred=True), 0, 9)
    assert format_list(wide) == "1-9"


def test_full_cores_are_counted_without_those_that_hold_a_reserved_cpu():
    policy, state = fresh("full-pcpus-only")
    static.check_full_cores(policy, state, 14)
    with pytest.raises(AllocationError, match="available physical CPUs = 14"):
        static.check_full_cores(policy, state, 16)
    with pytest.raises(AllocationError, match="not multiple cpus per core = 2"):
        static.check_full_cores(policy, state, 3)


def test_a_removed_container_gives_its_cpus_back_except_those_of_another():
    _, state = fresh()
    state = static.stored(state, "p", "i", 0b1100, state.shared & ~0b1100, baselines=False)
    state = static.stored(state, "p", "c", 0b0100, state.shared, baselines=False)
    after = static.removed(state, "p", ["i"])
    assert format_list(after.shared) == "0-1,3-15"
    assert static.removed(after, "p", ["c"]).shared == parse_list("0-15")


def test_only_what_a_regular_init_container_had_may_be_used_again():
    init, app = container("i", 1, init=True), container("c", 1)
    assert static.reusable_after(0b01, init, 0b10) == 0b11
    assert static.reusable_after(0b11, app, 0b10) == 0b01
    assert static.reusable_after(0b01, container("s", 1, sidecar=True), 0b10) == 0b01


def test_a_state_in_which_cpus_are_owned_and_shared_does_not_start():
    policy, state = fresh()
    twice = CpuState("static", state.shared, {"p": {"c": 0b10}})
    with pytest.raises(StartError, match="overlaps with default cpuset"):
        static.started(policy, twice, pod_level=False)


def test_a_container_after_an_init_container_gets_its_cpus():
    driver = Driver(settings(memory=False), machine())
    driver.admit(pod("p", container("i", 2, "1Gi", init=True), container("c", 4, "1Gi")))
    held = driver.state.cpu.entries["p"]
    assert held["i"] & held["c"] == held["i"]
