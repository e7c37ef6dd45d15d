"""The machines in records of the real kubelet are those of the captures made elsewhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.adapters.sources.shared_machines import MACHINES, machine_of

from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine

RECORDS = sorted((MACHINES.parent / "vectors" / "live").glob("*.json.gz"))


@pytest.mark.skipif(not RECORDS, reason="the records of the kubelet are not there")
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_the_machine_of_a_record_is_that_of_its_guest(path: Path) -> None:
    record = json.loads(gzip.decompress(path.read_bytes()))
    machine = read_machine(MappingTree(record["machine"]), record["topology"])
    guest = machine_of(MACHINES / "emulated" / f"{record['topology']}.tar.xz")
    assert machine.cpus == guest.cpus
    assert machine.caches == guest.caches
    assert [(n.id, n.cpus, n.distances) for n in machine.nodes] == [
        (n.id, n.cpus, n.distances) for n in guest.nodes
    ]
    assert all(node.memory_bytes for node in machine.nodes)
    assert machine.memory_bytes == sum(node.memory_bytes for node in machine.nodes)
