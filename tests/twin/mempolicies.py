"""Runs inside the guest: containers with memory policies, and where the kernel put their pages."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from numalign.adapters.cgroups.tree import CgroupTree
from numalign.adapters.processes.runtime import ProcessRuntime, Running, RunSpec
from numalign.core.values import mempolicy
from numalign.core.values.sets import CpuSet, NodeSet

PAGES = 64
PROGRAM = f"""
import mmap, time
area = mmap.mmap(-1, {PAGES} * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
for page in range({PAGES}):
    area[page * 4096] = 1
print("touched", flush=True)
time.sleep(1000)
"""


WEIGHTS = Path("/sys/kernel/mm/mempolicy/weighted_interleave")


def set_weight(node: int, weight: int) -> None:
    """How many pages in a row a node gets by weighted interleave."""
    (WEIGHTS / f"node{node}").write_text(str(weight))


def pages(policy: str, cpus: str, mems: str) -> tuple[str, dict[str, int]]:
    """The policy of such a container by numa_maps, and how many of its pages are on each node."""
    return asyncio.run(_pages(policy, cpus, mems))


async def _pages(policy: str, cpus: str, mems: str) -> tuple[str, dict[str, int]]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        mountinfo = Path("/proc/self/mountinfo").read_text()
        tree = CgroupTree.detect(Path("/sys/fs/cgroup"), mountinfo, "policies")
        runtime = ProcessRuntime(root / "state", tree)
        nodes = NodeSet.parse(mems)
        asked = mempolicy.parsed(policy).within(nodes)
        started = await runtime.start(
            RunSpec(
                pod_uid="p",
                container="c",
                argv=(sys.executable, "-S", "-c", PROGRAM),
                log_path=root / "log",
                cpus=CpuSet.parse(cpus),
                mems=nodes,
                mempolicy=asked,
            )
        )
        assert isinstance(started, Running), started
        try:
            while "touched" not in (root / "log").read_text():
                await asyncio.sleep(0.05)
            return _area(Path(f"/proc/{started.pid}/numa_maps").read_text())
        finally:
            await runtime.stop("p", "c", 0.0)
            runtime.remove("p", "c")
            runtime.close()


def _area(text: str) -> tuple[str, dict[str, int]]:
    """The policy and the pages by node of the one mapping of just so many anonymous pages."""
    for line in text.splitlines():
        fields = line.replace("weighted interleave", "weighted-interleave").split()
        if f"anon={PAGES}" in fields and "file=" not in line:
            counts = {
                f[1:]: int(n) for f, _, n in (x.partition("=") for x in fields) if f[0] == "N"
            }
            return fields[1].replace("weighted-", "weighted "), counts
    raise AssertionError(f"no mapping of {PAGES} pages:\n{text}")
