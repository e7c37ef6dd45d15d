"""Topology policies: what each admits, and which options a kubelet starts with."""

from dataclasses import replace

import pytest
from tests.core.hosts import machine, settings

from numalign.core.errors import StartError
from numalign.core.kubelet.topology.hints import Hint, HintSet, Region
from numalign.core.kubelet.topology.node_search import Need
from numalign.core.kubelet.topology.policy import topology_policy

ON_BOTH = HintSet((0, 1), 1, Region(0b11, 0, (Need(8, ((0b01, 6), (0b10, 6))),)))
ON_ONE = HintSet((0, 1), 1, Region(0b11, 0, (Need(4, ((0b01, 6), (0b10, 3))),)))


def decided(name, *answers):
    policy = topology_policy(settings(name), machine())
    return policy.decide(policy.merger, answers, explain=True)


def test_best_effort_admits_what_is_not_preferred():
    assert decided("best-effort", ON_BOTH) == (Hint(0b11, preferred=False), True)


def test_restricted_admits_only_what_is_preferred():
    assert decided("restricted", ON_BOTH) == (Hint(0b11, preferred=False), False)
    assert decided("restricted", ON_ONE) == (Hint(0b01, preferred=True), True)


def test_single_numa_node_admits_only_one_node():
    assert decided("single-numa-node", ON_ONE) == (Hint(0b01, preferred=True), True)
    wide = replace(ON_BOTH, preferred_count=2)
    assert decided("single-numa-node", wide)[1] is False
    assert decided("restricted", wide)[1] is True


def test_a_machine_may_have_eight_nodes_unless_more_are_allowed():
    assert topology_policy(settings(), machine(nodes=8, cores=1)) is not None
    with pytest.raises(StartError, match="more than 8 NUMA Nodes"):
        topology_policy(settings(), machine(nodes=9, cores=1))
    wide = settings(topology_options={"max-allowable-numa-nodes": "9"})
    assert topology_policy(wide, machine(nodes=9, cores=1)) is not None


def test_fewer_nodes_than_eight_cannot_be_the_most_allowed():
    with pytest.raises(StartError, match="should not be less than 8"):
        topology_policy(settings(topology_options={"max-allowable-numa-nodes": "7"}), machine())


def test_policy_none_looks_at_no_option():
    assert topology_policy(settings("none", topology_options={"nonsense": "x"}), machine()) is None
