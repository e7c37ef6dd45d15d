"""What a change of the kubelet's settings costs: a restart, a drain, and state files to delete."""

from __future__ import annotations

from dataclasses import dataclass

from numalign.core.kubelet.cpu.policy import STRICT
from numalign.core.settings import Settings

CPU_FILE = "cpu_manager_state"
MEMORY_FILE = "memory_manager_state"


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """What has to be done around a change; nothing where nothing changes."""

    restart: bool = False
    drain: bool = False
    deletes: tuple[str, ...] = ()  # files that the kubelet would refuse to start with

    def steps(self, directory: str = "/var/lib/kubelet") -> tuple[str, ...]:
        """The same as instructions, in their order."""
        if not self.restart:
            return ()
        found = ["drain the host"] if self.drain else []
        found.append("stop the kubelet")
        found += [f"delete {directory}/{name}" for name in self.deletes]
        return (*found, "change its configuration", "start it again")


def cost_of(before: Settings, after: Settings) -> ChangeCost:
    """What the change from one to the other costs on a host with pods."""
    cpu = (
        before.cpu_policy != after.cpu_policy
        or before.reserved_cpus != after.reserved_cpus
        or (STRICT in before.cpu_options) != (STRICT in after.cpu_options)
    )
    memory = (
        before.memory_policy != after.memory_policy
        or before.reserved_memory != after.reserved_memory
    )
    deletes = [CPU_FILE] if cpu else []
    deletes += [MEMORY_FILE] if memory else []
    # Running pods are admitted anew when the kubelet starts: by other rules some are refused.
    rules = (
        before.cpu_options != after.cpu_options
        or before.topology_policy != after.topology_policy
        or before.topology_scope != after.topology_scope
        or before.topology_options != after.topology_options
    )
    changed = cpu or memory or rules
    return ChangeCost(restart=changed, drain=changed, deletes=tuple(deletes))
