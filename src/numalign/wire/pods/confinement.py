"""What a process may do: the securityContext of a container as facts for the kernel.

A process runs as who asked for it. Root may ask for any user; somebody else only for itself, for
its own groups, and for less than it has. What cannot be held is refused, never left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from numalign.core.asker import Abilities, Asker
from numalign.wire.pods.records import ContainerRecord, PodSpec, SecurityContext

# By the kernel's numbers (linux/capability.h).
CAPABILITIES: Final = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
ALL: Final = "ALL"
ID_MAX: Final = 2**31 - 1  # as the API server allows


@dataclass(frozen=True, slots=True)
class Confinement:
    """None where nothing is changed."""

    user: tuple[int, int, tuple[int, ...]] | None = None  # uid, gid, other groups
    bounding: int | None = None  # capabilities that are kept, a mask
    ambient: int = 0  # capabilities that another user than root gets
    no_new_privileges: bool = False
    read_only_root: bool = False
    host_name: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a container and its pod ask for, and for whom."""

    own: SecurityContext
    pods: SecurityContext
    asker: Asker
    abilities: Abilities

    @property
    def is_root_agent(self) -> bool:
        return self.abilities.own.is_root

    @property
    def uid(self) -> int:
        asked = _first(self.own.runAsUser, self.pods.runAsUser)
        return self.asker.uid if asked is None else asked

    @property
    def gid(self) -> int:
        asked = _first(self.own.runAsGroup, self.pods.runAsGroup)
        if asked is not None:
            return asked
        # Another user's groups are not known here; the group of the same number is its own.
        return self.asker.gid if self.uid == self.asker.uid else self.uid

    @property
    def more_groups(self) -> list[int]:
        fs_group = [] if self.pods.fsGroup is None else [self.pods.fsGroup]
        return [*(self.pods.supplementalGroups or ()), *fs_group]

    @property
    def added(self) -> list[str]:
        return [_plain(name) for name in _listed(self.own, "add")]

    @property
    def dropped(self) -> list[str]:
        return [_plain(name) for name in _listed(self.own, "drop")]


def confinement(
    spec: PodSpec, container: ContainerRecord, asker: Asker | None, abilities: Abilities
) -> tuple[Confinement, list[str]]:
    """What a container's process may do, and what of it is refused, one text each."""
    wish = Wish(
        container.securityContext or SecurityContext(),
        spec.securityContext or SecurityContext(),
        asker or abilities.own,
        abilities,
    )
    faults = [f"container {container.name}: {text}" for text in _faults(wish)]
    if container.volumeMounts and not abilities.has_mounts:
        text = "volumeMounts: found an agent without root, which cannot mount; start it as root"
        faults.append(f"container {container.name}: {text}")
    found = _confined(wish)
    if container.volumeMounts and wish.uid != 0:
        # A volume over /etc must not fool a program that gets more rights than its user.
        found = replace(found, no_new_privileges=True)
    if abilities.has_mounts and spec.hostname and not spec.hostNetwork:
        found = replace(found, host_name=spec.hostname)
    return found, faults


def _confined(wish: Wish) -> Confinement:
    own = wish.own
    limits = own.allowPrivilegeEscalation is False
    if not wish.is_root_agent:
        # Without root nothing can be taken from the bounding set, but nothing can be gained either.
        return Confinement(no_new_privileges=limits or bool(wish.dropped))
    kept = _kept(wish) if wish.dropped or wish.added else None
    groups = (*(wish.asker.groups if wish.uid == wish.asker.uid else ()), *wish.more_groups)
    user = wish.uid, wish.gid, tuple(sorted({*groups} - {wish.gid}))
    plain = wish.abilities.own
    return Confinement(
        None
        if user == (plain.uid, plain.gid, tuple(sorted({*plain.groups} - {plain.gid})))
        else user,
        kept,
        _mask(wish.added, wish.abilities.capabilities) if wish.uid != 0 else 0,
        limits,
        own.readOnlyRootFilesystem,
    )


def _kept(wish: Wish) -> int:
    have = wish.abilities.capabilities
    less = have & ~_mask(wish.dropped, have)
    return less | _mask(wish.added, have)


def _mask(names: list[str], have: int) -> int:
    if ALL in names:
        return have
    return sum(1 << CAPABILITIES.index(name) for name in set(names) if name in CAPABILITIES)


def _faults(wish: Wish) -> Iterator[str]:
    yield from _profile_faults(wish)
    yield from _user_faults(wish)
    yield from _capability_faults(wish)
    if wish.own.readOnlyRootFilesystem and not wish.abilities.has_mounts:
        yield (
            "securityContext.readOnlyRootFilesystem: found an agent without root, which cannot "
            "mount; start it as root"
        )


def _profile_faults(wish: Wish) -> Iterator[str]:
    seccomp = wish.own.seccompProfile or wish.pods.seccompProfile
    if seccomp is not None and seccomp.type != "Unconfined":
        yield (
            f"securityContext.seccompProfile: found type {seccomp.type}, which a plain process "
            "cannot be given; remove it, or run it with --runtime cri"
        )


def _user_faults(wish: Wish) -> Iterator[str]:
    for name, number in (("runAsUser", wish.uid), ("runAsGroup", wish.gid)):
        if not 0 <= number <= ID_MAX:
            yield f"securityContext.{name}: found {number}, expected 0 to {ID_MAX}"
    if _first_flag(wish.own.runAsNonRoot, wish.pods.runAsNonRoot) and wish.uid == 0:
        yield "securityContext.runAsNonRoot: it would run as root; set runAsUser to another user"
    asker = wish.asker if wish.is_root_agent else wish.abilities.own
    who = "only root may ask for another" if wish.is_root_agent else "the agent is not root"
    if wish.uid != asker.uid and not asker.is_root:
        yield f"securityContext.runAsUser: found {wish.uid}, expected {asker.uid}: {who}"
    elif not asker.has_group(wish.gid):
        yield f"securityContext.runAsGroup: found {wish.gid}, expected one of who asked: {who}"
    strange = [group for group in wish.more_groups if not asker.has_group(group)]
    if strange:
        yield (
            "securityContext.supplementalGroups, fsGroup: found "
            f"{', '.join(map(str, strange))}, expected groups of user {asker.uid}: {who}"
        )


def _capability_faults(wish: Wish) -> Iterator[str]:
    where = "securityContext.capabilities"
    for name in {*wish.added, *wish.dropped} - {ALL, *CAPABILITIES}:
        yield f"{where}: found {name[:100]!r}, expected the name of a capability such as NET_ADMIN"
    is_root = wish.asker.is_root and wish.is_root_agent
    if wish.own.privileged and not is_root:
        yield "securityContext.privileged: only root may ask for it"
    if wish.added and not is_root:
        yield f"{where}.add: found {', '.join(wish.added)}: only root may ask for more rights"
        return
    have = wish.abilities.capabilities
    lacking = [
        name
        for name in wish.added
        if name in CAPABILITIES and not have >> CAPABILITIES.index(name) & 1
    ]
    if lacking:
        yield f"{where}.add: found {', '.join(lacking)}, which the agent itself does not have"


def _listed(context: SecurityContext, which: str) -> list[str]:
    found: list[str] | None = getattr(context.capabilities, which, None)
    return found or []


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _first(own: int | None, pods: int | None) -> int | None:
    return pods if own is None else own


def _first_flag(own: bool | None, pods: bool | None) -> bool:  # noqa: FBT001 two facts
    return bool(pods if own is None else own)
