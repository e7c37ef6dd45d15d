"""Machines that were published are rebuilt so that a kubelet would see the same ones."""

import pytest

from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import validate
from numalign.core.machine.published import machine_of


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_kubelet_would_see_the_same_machine(name):
    machine = EXAMPLES[name].machine()
    info = machine_info(machine)
    found = validate(machine_of(info, "host"))
    again = machine_info(found)
    assert again.nodes == info.nodes
    assert (again.memory_bytes, again.cpu_count) == (info.memory_bytes, info.cpu_count)
    # A socket without CPUs, such as that of a GPU's memory, is in no publication.
    assert again.socket_count <= info.socket_count
    assert found.sockets == machine.sockets
    assert {c.mask for c in found.cores.values()} == {c.mask for c in machine.cores.values()}
