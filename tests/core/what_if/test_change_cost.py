"""What a change of settings costs on a host with pods."""

from dataclasses import replace

import pytest
from tests.core.hosts import settings

from numalign.core.kubelet.cpu.policy import FULL_CORES, STRICT
from numalign.core.what_if.change_cost import ChangeCost, cost_of

NOW = settings("best-effort")


@pytest.mark.parametrize(
    ("changes", "deletes"),
    [
        ({"topology_policy": "restricted"}, ()),
        ({"topology_scope": "pod"}, ()),
        ({"topology_options": {"prefer-closest-numa-nodes": "true"}}, ()),
        ({"cpu_options": {FULL_CORES: "true"}}, ()),
        ({"cpu_options": {STRICT: "true"}}, ("cpu_manager_state",)),
        ({"reserved_cpus": "0-1"}, ("cpu_manager_state",)),
        ({"memory_policy": "None"}, ("memory_manager_state",)),
        (
            {"cpu_policy": "none", "reserved_memory": ()},
            ("cpu_manager_state", "memory_manager_state"),
        ),
    ],
)
def test_a_change_names_the_files_that_the_kubelet_would_refuse(changes, deletes):
    cost = cost_of(NOW, replace(NOW, **changes))
    assert cost == ChangeCost(restart=True, drain=True, deletes=deletes)
    steps = cost.steps()
    assert [s for s in steps if s.startswith("delete")] == [
        f"delete /var/lib/kubelet/{name}" for name in deletes
    ]
    assert steps[0] == "drain the host"
    assert steps[-1] == "start it again"


def test_no_change_costs_nothing():
    assert cost_of(NOW, NOW).steps() == ()
