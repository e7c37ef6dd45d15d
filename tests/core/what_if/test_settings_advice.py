"""Advice: every combination tried, and reservations that the kubelet's start checks take."""

from dataclasses import replace

from tests.core.explain.recorded_refusals import machine_of
from tests.core.hosts import GI, container, machine, pod, settings
from tests.core.snapshots import gpus

from numalign.core.kubelet import host
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.devices.devices import DeviceState, device_resource
from numalign.core.settings import ReservedMemory
from numalign.core.values.quantity import Quantity
from numalign.core.what_if.reservation_advice import applied, reservations
from numalign.core.what_if.settings_advice import advise, combinations_of, cpu_option_sets

GPU = "example.com/gpu"


def advised(configured, info, pods, plugins=(), going=lambda _stage, _runs: True):
    devices = DeviceState({name: device_resource(items) for name, items in dict(plugins).items()})
    return advise(
        machine_of(info),
        configured,
        info,
        devices,
        lambda found: node_fit.allocatable(found, info),
        pods,
        going,
    )


def found_for(result, policy, scope="container", options=(), memory="Static"):
    return next(
        t
        for t in result.trials
        if (t.settings.topology_policy, t.settings.topology_scope, t.settings.memory_policy)
        == (policy, scope, memory)
        and t.options == tuple(options)
    )


def test_every_policy_and_scope_is_tried_once_with_each_set_of_options():
    found = list(combinations_of(settings(), machine()))
    assert len(found) == len(set(map(repr, found)))
    names = {(s.topology_policy, s.topology_scope) for s in found}
    assert len(names) == 7  # none has no scope
    assert len(found) == 7 * len(cpu_option_sets(settings(), machine())) * 2


def test_options_that_change_nothing_on_a_machine_are_not_tried():
    plain = settings(gates={"CPUManagerPolicyAlphaOptions": False})
    assert cpu_option_sets(plain, machine(1, threads=1)) == [()]
    assert ("full-pcpus-only",) in cpu_option_sets(plain, machine(1))


def test_a_policy_that_refuses_is_not_recommended():
    pods = [pod("wide", container("c", 10, "1Gi")), pod("small", container("c", 2, "1Gi"))]
    result = advised(settings(memory=True), machine(), pods)
    single = found_for(result, "single-numa-node")
    assert (single.admitted, single.refused) == (1, (("default/wide", "TopologyAffinityError"),))
    assert result.best.admitted == 2
    assert result.best.settings.topology_policy != "single-numa-node"
    assert result.reasons[0] == "It admits all 2 pods."


def test_a_policy_that_aligns_more_is_recommended_before_one_that_aligns_less():
    pods = [
        pod("a", container("c", 6, "1Gi")),
        pod("b", container("c", 2, "1Gi", gpu=1)),
    ]
    result = advised(settings("none"), machine(), pods, {GPU: gpus(1)})
    assert found_for(result, "none").aligned < result.best.aligned == 2


def test_odd_pods_strand_the_other_half_of_their_core():
    pods = [pod("a", container("c", 3, "1Gi"))]
    result = advised(settings("none", reserved="0-1"), machine(), pods)
    assert found_for(result, "none").stranded_cpus == 1


def test_memory_beside_cpus_that_are_all_taken_is_stranded():
    pods = [pod("a", container("c", 8, "1Gi"))]
    result = advised(settings("single-numa-node"), machine(), pods)
    assert found_for(result, "single-numa-node").stranded_bytes == 15 * GI


def test_advice_can_be_stopped():
    result = advised(settings(), machine(), [], going=lambda _stage, runs: runs < 3)
    assert not result.complete
    assert len(result.trials) + len(result.impossible) == 3


# Reservations.


def starts(configured, info):
    return host.start(host.build(configured, info))


def test_partly_reserved_cores_become_whole_and_the_kubelet_starts():
    info = machine()
    found = reservations(settings(reserved="0,3"), info)
    assert found.cpus == "0-3"
    assert starts(applied(settings(reserved="0,3"), found), info)


def test_reserved_memory_adds_up_to_what_is_reserved_in_total():
    info = machine()
    wrong = replace(
        settings(),
        reserved_memory=(ReservedMemory(1, "memory", Quantity.parse("2Gi")),),
        node_allocatable_reservation={"cpu": Quantity.of(1), "memory": Quantity.parse("1124Mi")},
    )
    found = reservations(wrong, info)
    assert [(m.node, str(m.amount)) for m in found.memory] == [(0, "1124Mi")]
    assert starts(applied(wrong, found), info)


def test_what_one_node_cannot_hold_is_reserved_on_the_next():
    info = machine(memory=GI)
    large = replace(
        settings(),
        reserved_memory=(),
        node_allocatable_reservation={"cpu": Quantity.of(2), "memory": Quantity.parse("700Mi")},
        reserved_cpus="",
    )
    found = reservations(large, info)
    assert [(m.node, str(m.amount)) for m in found.memory] == [(0, "512Mi"), (1, "188Mi")]
    assert found.cpus == "0-1"
    assert starts(applied(large, found), info)


def test_a_right_reservation_is_kept():
    found = reservations(settings(reserved="0-1"), machine())
    assert found.cpus == "0-1"
    assert found.memory == settings().reserved_memory
