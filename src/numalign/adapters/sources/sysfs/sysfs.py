"""A Machine from the files of sysfs and procfs, of the running host or of a capture.

One reader for each part stands beside this file; what they find strange ends in ``notes``.
"""

from __future__ import annotations

from typing import Final

from numalign.adapters.sources.filetree import FileTree
from numalign.adapters.sources.sysfs.caches import read_caches
from numalign.adapters.sources.sysfs.cpus import cpus_of, read_presence, read_topologies
from numalign.adapters.sources.sysfs.hmat import read_memory_paths
from numalign.adapters.sources.sysfs.nodes import node_cpus, read_memory, read_nodes
from numalign.adapters.sources.sysfs.pci import read_devices
from numalign.adapters.sources.sysfs.text import Notes, SysfsText
from numalign.core.machine.machine import Machine, validate
from numalign.core.values.sets import CpuSet

MEMORY_TOLERANCE: Final = 8  # an eighth: kernels count a little differently in the two places
HOST_NAME: Final = "proc/sys/kernel/hostname"


def read_machine(tree: FileTree, name: str = "") -> Machine:
    """The machine that a tree of files shows; DiscoveryError where it shows none."""
    text = SysfsText(tree, Notes())
    presence = read_presence(text)
    topologies = read_topologies(text, presence.online)
    usable = CpuSet.of(topology.cpu for topology in topologies)
    nodes = read_nodes(text, usable)
    total, of_nodes = read_memory(text), sum(node.memory_bytes for node in nodes)
    if abs(total - of_nodes) * MEMORY_TOLERANCE > total > 0:
        text.notes.add(f"the machine has {total} bytes of memory, its NUMA nodes {of_nodes}")
    return validate(
        Machine(
            name=name or text.words(HOST_NAME) or tree.source,
            nodes=nodes,
            cpus=cpus_of(text, topologies, node_cpus(nodes)),
            memory_bytes=total or of_nodes,
            caches=read_caches(text, usable),
            devices=read_devices(text, nodes),
            memory_paths=read_memory_paths(text, nodes),
            offline=presence.offline,
            notes=text.notes.texts(),
        )
    )
