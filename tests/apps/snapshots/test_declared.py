"""Devices that are declared for a question, and resources that nothing offers."""

import pytest

from numalign.apps.snapshots.declared import parsed, unoffered, unoffered_text, with_declared
from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.apps.snapshots.loading import loaded
from numalign.core.errors import ConfigError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity


def test_counts_stand_on_their_nodes_and_options_of_one_resource_add_up():
    [found] = parsed(["a.com/x=2@0,1", "a.com/x=1@1"], [0, 1])
    assert found.devices == (
        Device("x-0", (0,)),
        Device("x-1", (0,)),
        Device("x-2", None),
        Device("x-3", (1,)),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.com/x", "no '='"),
        ("gpu=1@0", "the name 'gpu'"),
        ("a.com/x=", "''"),
        ("a.com/x=1@0,", "''"),
        ("a.com/x=-1@0", "'-1@0'"),
        ("a.com/x=1@0-1", "'1@0-1'"),
        ("a.com/x=1@2", "NUMA node 2, expected one of this machine: 0-1"),
        ("a.com/x=1001@0", "1001 devices"),
        ("a.com/x=600@0,600@1", "1200 devices"),
    ],
)
def test_a_mistake_is_told_with_an_example(text, found):
    with pytest.raises(ConfigError) as caught:
        parsed([text], [0, 1])
    assert str(caught.value).startswith(f"--device {text}: found {found}")
    assert "nvidia.com/gpu=2@0,2@1" in str(caught.value)


def test_only_what_nothing_offers_is_named():
    machine = synthetic_machine("2s:1n:4c")
    limits = {"cpu": "1", "a.com/x": "1", "b.com/y": "2", "c.com/z": "0"}
    quantities = {name: Quantity.parse(text) for name, text in limits.items()}
    pod = Pod("u", "p", "default", (), (Container("c", quantities, quantities),))
    inputs = SnapshotInputs(source="test", machine=machine)
    assert unoffered(loaded(inputs).snapshot, [pod]) == ["a.com/x", "b.com/y"]
    with_x = loaded(with_declared(inputs, ["a.com/x=1@1"]))
    assert unoffered(with_x.snapshot, [pod]) == ["b.com/y"]
    assert "--device b.com/y=COUNT@NODE" in unoffered_text("b.com/y")
