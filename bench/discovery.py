"""How long it takes to know a large host."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.adapters.sources.captures import sysfs_files, write_tree

from bench.timing import text
from numalign.adapters.sources.discovery import discover
from numalign.core.machine.synthetic import synthetic_machine

LARGE = "8s:2n:16c:2t,hp2Mi=64,hp1Gi=4,l3=2,d=2,gpu=2,nic=4,nvme=4"


def run() -> None:
    """Prints the best of three."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, sysfs_files(synthetic_machine(LARGE)))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            machine = discover(None, root=root)
            times.append((time.perf_counter() - start) * 1e6)
    shape = f"{len(machine.cpus)} CPUs on {len(machine.nodes)} NUMA nodes"
    print(f"\nDiscovery of {shape} from sysfs: {text(min(times))} (target under 500 ms)")
