"""numalign and hwloc see the same machines, but for the differences that this file lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.adapters.sources.shared_machines import (
    captures,
    hwloc_view_of,
    is_known_to_hwloc,
    machine_of,
    needs_machines,
    snapshot,
)
from tests.paths import DOCS
from tests.wire.machine.hwloc_comparison import differences

NOT_ALLOWED = "hwloc drops what the process's cgroup forbids; numalign describes the machine"
OWN_PLACES = "the test sets HWLOC_PCI_LOCALITY; numalign takes the kernel's word"

# Each is told at length in docs/reference/hwloc-differences.md, which a test below holds to.
DIFFERENCES = {
    "16amd64-8n2c-cpusets": {"cpus": NOT_ALLOWED, "nodes": NOT_ALLOWED},
    "32amd64-4s2n4c-cgroup2": {"cpus": NOT_ALLOWED, "nodes": NOT_ALLOWED},
    "32em64t-2n8c+dax+nvme+mic+dimms": {
        "places of devices": "0000:00:02.0 has no NUMA node but local_cpus; the node decides"
    },
    "40intel64-2g2n4c+pcilocality": {"places of devices": OWN_PLACES},
    "64intel64-fakeKNL-SNC4-hybrid": {
        "distances": "hwloc shows no distances on a Xeon Phi; numalign shows the kernel's"
    },
    "fakeheterocpunuma": {
        "CPUs of nodes": "CPUs on several nodes; in numalign a CPU is on the smallest only"
    },
    "fakememinitiators-1np2c+1npp+gi": {
        "nodes": "hwloc hides nodes without memory; the kubelet counts them"
    },
    "fakepcilocalities": {"places of devices": OWN_PLACES},
    "nvidiagpunumanodes": {"nodes": "hwloc hides nodes of GPU memory; the kubelet counts them"},
    "2node-ht": {"devices": "three virtual functions were made after the capture"},
    "memless": {"nodes": "hwloc hides nodes without memory; the kubelet counts them"},
}
COMPARED = [path for path in captures() if is_known_to_hwloc(path)]
DOCUMENT = DOCS / "reference" / "hwloc-differences.md"


@needs_machines
@pytest.mark.parametrize("path", COMPARED, ids=snapshot)
def test_numalign_differs_from_hwloc_only_where_listed(path: Path) -> None:
    found = differences(machine_of(path), hwloc_view_of(path))
    expected = DIFFERENCES.get(snapshot(path), {})
    assert found.keys() == expected.keys(), found


@needs_machines
def test_every_snapshot_is_compared_and_the_count_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    same = [path for path in COMPARED if not differences(machine_of(path), hwloc_view_of(path))]
    listed = [path for path in COMPARED if snapshot(path) in DIFFERENCES]
    assert len(COMPARED) == len(captures()) - 1 == 31  # nobody recorded hwloc's word on 1node
    assert len(same) + len(listed) == len(COMPARED)
    with capsys.disabled():
        sys.stdout.write(
            f"\nagrees with hwloc on {len(COMPARED)} of {len(COMPARED)} snapshots: "
            f"{len(same)} without a difference, {len(listed)} but for those listed\n"
        )


def test_the_document_tells_each_difference() -> None:
    text = DOCUMENT.read_text()
    for name, aspects in DIFFERENCES.items():
        for aspect, reason in aspects.items():
            assert f"| {name} | {aspect} | {reason} |" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) - 1 == sum(map(len, DIFFERENCES.values())), "the document lists others too"
