"""The largest shapes that still fit: what is listed is admitted, and nothing larger is."""

from dataclasses import replace

import pytest
from tests.core.hosts import GI, container, machine, pod, settings
from tests.core.snapshots import gpus, snapshot

from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.what_if import largest_fit

GPU = "example.com/gpu"


def is_admitted(on, shape):
    return isinstance(
        verdict_on(on.host, on.state, on.totals, largest_fit.as_pod(shape))[1], Admitted
    )


def test_one_node_and_both_nodes_of_an_empty_host():
    on = snapshot(settings("best-effort"), machine(), plugins={GPU: gpus(0, 1)})
    found = largest_fit.largest(on.host, on.state, on.totals)
    assert [(s.nodes, s.cpus, s.memory["memory"], s.devices[GPU]) for s in found] == [
        (0b10, 8, 16 * GI, 1),
        (0b11, 15, 31 * GI, 2),
    ]


def test_single_numa_node_has_no_shape_of_two_nodes():
    on = snapshot(settings("single-numa-node"), machine())
    assert [s.nodes for s in largest_fit.largest(on.host, on.state, on.totals)] == [0b10]


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_every_shape_is_admitted_and_one_cpu_more_on_one_node_is_not(policy):
    on = snapshot(
        settings(policy),
        machine(4, sockets=2),
        pod("a", container("c", 3, "2Gi")),
        pod("b", container("c", 7, "5Gi")),
    )
    found = largest_fit.largest(on.host, on.state, on.totals)
    assert found
    for shape in found:
        assert is_admitted(on, shape)
    if policy == "single-numa-node":
        assert not is_admitted(on, replace(found[0], cpus=found[0].cpus + 1))


def test_whole_cores_only_where_the_host_gives_no_others():
    on = snapshot(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine(1))
    [shape] = largest_fit.largest(on.host, on.state, on.totals)
    assert shape.cpus == 6


def test_a_full_host_has_no_shape():
    on = snapshot(settings("none"), machine(1), pod("a", container("c", 7, "1Gi")))
    assert largest_fit.largest(on.host, on.state, on.totals) == []
