"""The deciding part of the device manager: hints, which devices, and what is busy."""

from functools import partial

import pytest
from tests.core.hosts import container

from numalign.core.kubelet.admission.draft import no_preference
from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import Device, DeviceState, Wanted
from numalign.core.kubelet.topology.hints import Affinity, Hint

GPU = "example.com/gpu"
NO_HINT = Hint(None, preferred=False)


def reported(*nodes, sick=(), state=None, **options):
    items = [Device(f"g{i}", at, i not in sick) for i, at in enumerate(nodes)]
    resource = devices.device_resource(items, **options)
    return devices.with_reported(state or DeviceState(), GPU, resource)


FOUR = reported((0,), (0,), (1,), (1,))
asked = partial(devices.hint, machine_nodes=0b11, held=frozenset(), reusable=frozenset())


def chosen(state, count, hint=NO_HINT, reusable=frozenset(), preferred=no_preference):
    return devices.chosen(state, Wanted("p", "c", GPU, count), hint, reusable, preferred)


def test_hints_are_the_nodes_that_enough_free_devices_touch():
    assert [h.nodes for h in asked(FOUR, GPU, 2).listed()] == [0b01, 0b10, 0b11]
    assert [h.nodes for h in asked(FOUR, GPU, 3).listed()] == [0b11]
    assert asked(FOUR, GPU, 5) is Affinity.NOWHERE


def test_devices_that_name_no_node_do_not_care():
    assert asked(reported(None, None), GPU, 1) is Affinity.ANYWHERE


def test_devices_of_the_hinted_nodes_come_first_then_others_then_those_of_no_node():
    state = reported((0,), None, (1,), (1,))
    on_second = Hint(0b10, preferred=True)
    assert chosen(state, 1, on_second) == ("g2",)
    assert chosen(state, 3, on_second) == ("g0", "g2", "g3")


def test_sick_devices_are_not_given():
    state = reported((0,), (0,), sick={0})
    assert chosen(state, 1) == ("g1",)
    with pytest.raises(AllocationError, match="Requested: 2, Available: 1"):
        chosen(state, 2)


def test_devices_in_use_are_given_to_nobody_else_until_their_pod_is_gone():
    state = devices.with_held(FOUR, Wanted("q", "c", GPU, 1), ("g0",))
    assert chosen(state, 1) == ("g1",)
    assert chosen(devices.without_pods(state, ["q"]), 1) == ("g0",)


def test_what_an_init_container_left_is_taken_before_anything_else():
    assert chosen(FOUR, 2, reusable=frozenset({"g3"})) == ("g0", "g3")
    init, app = container("i", init=True), container("c")
    left = devices.reusable_after({}, init, {GPU: ("g3",)})
    assert left == {GPU: {"g3"}}
    assert devices.reusable_after(left, app, {GPU: ("g3",)}) == {GPU: frozenset()}


def test_a_plugin_may_choose_among_the_devices_that_are_aligned():
    state = reported((0,), (0,), (1,), has_preferred=True)
    found = chosen(state, 1, Hint(0b01, preferred=True), preferred=lambda *_: ("g1",))
    assert found == ("g1",)


def test_a_container_cannot_ask_for_another_number_than_it_holds():
    state = devices.with_held(FOUR, Wanted("p", "c", GPU, 1), ("g0",))
    with pytest.raises(AllocationError, match="from 1 to 2"):
        devices.check_unchanged(state, Wanted("p", "c", GPU, 2))


def test_after_a_restart_holdings_are_known_before_the_plugin_is_back():
    state = devices.with_saved(devices.with_held(FOUR, Wanted("p", "c", GPU, 1), ("g0",)))
    back = devices.restored(state.saved)
    assert back.in_use == {GPU: {"g0"}}
    with pytest.raises(AllocationError, match="no healthy devices present"):
        chosen(back, 1)
    again = reported((0,), (0,), state=back)
    assert devices.chosen(again, Wanted("q", "c", GPU, 1), NO_HINT, frozenset(), no_preference) == (
        "g1",
    )
