"""Who asked for a pod: its processes run as that user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asker:
    """A user of the host, with the groups that it has."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def has_group(self, group: int) -> bool:
        return self.is_root or group == self.gid or group in self.groups


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the agent itself may do, so what its processes can be given."""

    own: Asker
    capabilities: int = 0  # a mask by the kernel's numbers
    has_mounts: bool = False  # mount and UTS namespaces can be made
    has_objects: bool = False  # there is a directory of ConfigMaps and Secrets
    address: str = "127.0.0.1"  # of the host
    host_name: str = ""
