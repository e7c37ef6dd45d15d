"""The cgroups of pods whose containers a runtime runs.

We make and limit the group of a pod, the runtime makes one for each container below it. The
runtime also makes the pod's group in hierarchies that we do not use, and leaves it there: who names
a parent removes it.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from numalign.adapters.cgroups import files as cgroup_files
from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement, pod_group, qos_group
from numalign.adapters.processes import drift as process_drift
from numalign.adapters.processes.values import Drift, DriftKind, Expected
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos


class PodGroups:
    """The groups of pods below the parent of a tree; ``mounts`` are all cgroup hierarchies."""

    def __init__(self, tree: CgroupTree, mounts: list[Path]) -> None:
        self.tree = tree
        self._mounts = mounts
        # Where containers are pinned. On a host with both versions a runtime uses v1 alone, so
        # other hierarchies of ours may lack a container.
        cpusets = [h for h in tree.hierarchies if "cpuset" in h.controllers]
        self._cpusets = CgroupTree(cpusets, str(tree.parent))

    @property
    def kills_as_group(self) -> bool:
        """Whether the kernel can end all processes of a container together: in cgroup v2."""
        return any(h.version == 2 and "memory" in h.controllers for h in self.tree.hierarchies)

    def parent_of(self, qos: Qos, uid: str) -> str:
        """The group of a pod as a runtime is told it."""
        return f"/{self.tree.parent / pod_group(qos, uid)}"

    def make(self, qos: Qos, uid: str, limits: Limits) -> None:
        group = pod_group(qos, uid)
        self.tree.make(group)
        self.tree.limit(group, limits)

    def limit_qos(self, qos: Qos, limits: Limits) -> None:
        """Writes the amounts of a QoS class; Guaranteed has no group of its own."""
        if group := qos_group(qos):
            self.tree.make(group)
            self.tree.limit(group, limits)

    def remove(self, uid: str) -> None:
        """Removes what is left of a pod's groups, in every hierarchy; PeerError if it is in use."""
        for qos in Qos:
            for mount in self._mounts:
                cgroup_files.remove(mount / self.tree.parent / pod_group(qos, uid))

    def end(self, uid: str) -> set[int]:
        """Kills what is still in the groups of a pod; gives the processes that were there."""
        return set().union(*(self.tree.kill(pod_group(qos, uid)) for qos in Qos))

    def uids(self) -> set[str]:
        """The pods that have a group in some hierarchy."""
        found: set[str] = set()
        for qos in Qos:
            for mount in self._mounts:
                top = mount / self.tree.parent / qos_group(qos)
                found.update(path.name[3:] for path in top.glob("pod*") if path.is_dir())
        return found

    # Containers.

    def of_container(self, uid: str, container_id: str) -> str | None:
        """The group that a runtime made for a container; None if there is none."""
        for qos in Qos:
            pod = pod_group(qos, uid)
            # containerd takes the id as it is, CRI-O puts its name before it.
            for name in (container_id, f"crio-{container_id}"):
                group = str(PurePosixPath(pod, name))
                if self._cpusets.exists(group):
                    return group
        return None

    def fault(self, uid: str, container_id: str, placement: CpusetPlacement) -> str:
        """Where the kernel does not have what a runtime was told, in words; "" if it has."""
        group = self.of_container(uid, container_id)
        if group is None:
            return ""
        try:
            wrong = self._cpusets.differences(group, None, placement)
            effective = self._cpusets.effective(group)
        except PeerError:  # it has just ended
            return ""
        texts = [f"{d.path}: found {d.found!r}, expected {d.expected!r}" for d in wrong]
        if not wrong and effective is not None and placement.cpus not in {None, effective[0]}:
            texts.append(
                f"{group}: the kernel gives CPUs {effective[0]} of {placement.cpus}; a group above "
                "does not have the rest, or it is offline"
            )
        return "; ".join(texts)

    def drift(self, one: Expected, container_id: str, pid: int) -> list[Drift]:
        """What somebody changed behind our back in the group of a container."""
        group = self.of_container(one.pod_uid, container_id)
        if group is None:
            key = one.pod_uid, one.container
            return [Drift(*key, DriftKind.GONE, container_id, "a cgroup", "nothing")]
        try:
            found = process_drift.of_group(self._cpusets, group, one, [pid] if pid else [])
            return found + process_drift.of_pod(self.tree, str(PurePosixPath(group).parent), one)
        except PeerError:  # it has just ended
            return []

    def limit_pod(self, one: Expected, container_id: str) -> None:
        """Writes the amounts of a whole pod again."""
        group = self.of_container(one.pod_uid, container_id)
        if group is not None and one.pod_limits is not None:
            self.tree.limit(str(PurePosixPath(group).parent), one.pod_limits)

    def take_back(self, uid: str, container_id: str, pids: set[int]) -> None:
        """Moves processes that have left the group of a container back into it."""
        group = self.of_container(uid, container_id)
        if group is not None:
            for pid in self._cpusets.outside(group, pids):
                self._cpusets.add(group, pid)
