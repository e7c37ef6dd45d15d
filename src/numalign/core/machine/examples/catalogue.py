"""Built-in machines, to try things out without owning one.

Each is modelled on a machine that can be bought: its shape, caches, CPU numbers, distances
and devices are those that Linux shows there. They are built when asked for and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from numalign.core.machine.examples import machines
from numalign.core.machine.machine import Machine, validate


@dataclass(frozen=True, slots=True)
class Example:
    """A built-in machine: its name for the command line, and what it stands for."""

    name: str
    title: str
    description: str
    build: Callable[[], Machine]

    def machine(self) -> Machine:
        return validate(self.build())


_ALL: Final = (
    Example(
        "vm-2cpu",
        "Small virtual machine",
        "1 core with 2 threads, 4 GiB, devices at no NUMA node; also what a laptop looks like.",
        machines.vm_2cpu,
    ),
    Example(
        "edge-nosmt",
        "Telco edge server, hyper-threading off",
        "Xeon D-2796, 20 cores; the second threads are offline; 64 huge pages of 1 GiB, SR-IOV.",
        machines.edge_nosmt,
    ),
    Example(
        "xeon-2s",
        "Two-socket server",
        "2 x Xeon Gold 6330 with hyper-threading, 512 GiB, GPUs, SR-IOV network card.",
        machines.xeon_2s,
    ),
    Example(
        "xeon-2s-snc2",
        "Two-socket server, sub-NUMA clustering",
        "2 x Xeon Platinum 8480+ cut into 2 NUMA nodes each (SNC2); one L3 per socket.",
        machines.xeon_2s_snc2,
    ),
    Example(
        "xeon-2s-cxl",
        "Two-socket server with CXL memory",
        "2 x Xeon Gold 6530 and a 256 GiB memory expander: a NUMA node without CPUs.",
        machines.xeon_2s_cxl,
    ),
    Example(
        "xeon-4s",
        "Four-socket server",
        "4 x Xeon Platinum 8260; the firmware deals CPU numbers to the sockets in turn.",
        machines.xeon_4s,
    ),
    Example(
        "xeon-8s",
        "Eight-socket database server",
        "8 x Xeon Platinum 8253, 6 TiB; some sockets are two hops apart.",
        machines.xeon_8s,
    ),
    Example(
        "epyc-2s-nps4",
        "Two-socket EPYC, four NUMA nodes per socket",
        "2 x EPYC 7763 in NPS4: 8 NUMA nodes, 16 L3 caches of 8 cores, 256 CPUs.",
        machines.epyc_2s_nps4,
    ),
    Example(
        "gb200",
        "NVIDIA GB200 compute tray",
        "2 x Grace and 4 x Blackwell: 34 NUMA nodes, of which 2 have CPUs and 32 are GPU memory.",
        machines.gb200,
    ),
)

EXAMPLES: Final[Mapping[str, Example]] = MappingProxyType({e.name: e for e in _ALL})
