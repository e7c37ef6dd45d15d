"""A tree of real cgroups for one test, below a parent of its own that is gone afterwards."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numalign.adapters.cgroups import files as cgroup_files
from numalign.adapters.cgroups.tree import CgroupTree
from numalign.core.errors import PeerError
from numalign.core.values.sets import CpuSet, NodeSet

MOUNTINFO = Path("/proc/self/mountinfo")
# Where this process may run: all CPUs, the first, the last, and the first NUMA node.
HOST_CPUS = CpuSet.of(os.sched_getaffinity(0))
FIRST = CpuSet(HOST_CPUS.mask & -HOST_CPUS.mask)
LAST = CpuSet(1 << HOST_CPUS.mask.bit_length() - 1)
NODE = NodeSet.parse(
    re.search(r"Mems_allowed_list:\s*(\d+)", Path("/proc/self/status").read_text())[1]
)


@contextmanager
def real_tree() -> Iterator[CgroupTree]:
    """The tree; skips the test where this host does not let us have one."""
    if os.geteuid() != 0:
        pytest.skip("real cgroups need root")
    parent = f"numalign-test-{uuid.uuid4().hex[:12]}"
    tree = CgroupTree.detect(Path("/sys/fs/cgroup"), MOUNTINFO.read_text(), parent)
    if not tree.has_cpuset:
        pytest.skip("this host has no cpuset controller below /sys/fs/cgroup")
    switched = {
        h.mount / "cgroup.subtree_control": cgroup_files.read(h.mount / "cgroup.subtree_control")
        for h in tree.hierarchies
        if h.version == 2
    }
    try:
        tree.make("")
    except PeerError as error:
        tree.remove("")
        pytest.skip(f"this host does not let us make cgroups: {error}")
    try:
        yield tree
    finally:
        deadline = time.monotonic() + 10
        while tree.kill("") and time.monotonic() < deadline:
            time.sleep(0.005)
        tree.remove("")
        for path, before in switched.items():
            for name in set(cgroup_files.read(path).split()) - set(before.split()):
                # Somebody else may need it by now; then it stays.
                try:
                    cgroup_files.send(path, f"-{name}")
                except PeerError:
                    continue
