"""Who asked for a pod, by the kernel's word: the owner of a file, the peer of a unix socket.

None stands for the agent's own user, whose processes need no change.
"""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
from pathlib import Path
from typing import Final

from numalign.core.asker import Abilities, Asker
from numalign.core.errors import WireError

_SO_PEERGROUPS: Final = 59
_GROUPS_MAX: Final = 65_536
_CAP_SYS_ADMIN: Final = 21
_NOBODY: Final = 65534
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
# Of the block for documentation: nothing is sent, the kernel only says how it would go there.
_ELSEWHERE: Final = ("192.0.2.1", 9)


def owner_of(path: Path, found: os.stat_result) -> Asker | None:
    """The owner of a manifest; WireError if root would run what somebody else can write."""
    if os.geteuid() == 0 and found.st_mode & _OTHERS_WRITE:
        raise WireError(
            f"{path}: found mode {stat.S_IMODE(found.st_mode):04o}, so others than its owner can "
            f"write it; expected none of these where the agent is root. Do: chmod go-w {path}"
        )
    return _asker(found.st_uid, found.st_gid)


def check_directory(path: Path) -> None:
    """WireError for a directory of manifests that others can write, where the agent is root."""
    if os.geteuid() != 0:
        return
    found = path.stat()
    if found.st_uid != 0 or found.st_mode & _OTHERS_WRITE:
        raise WireError(
            f"{path}: found owner {found.st_uid} and mode {stat.S_IMODE(found.st_mode):04o}, so "
            "others than root can put manifests there; nothing new in it is read. "
            f"Do: chown root {path} && chmod go-w {path}"
        )


def peer_of(connection: socket.socket) -> Asker | None:
    """Who is at the other end of a unix socket."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, gid = struct.unpack("3i", data)
    if uid == os.geteuid():
        return None
    try:
        size = struct.calcsize("I")
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_MAX * size)
    except OSError:
        return _asker(uid, gid)  # before Linux 4.13
    groups = struct.unpack(f"{len(packed) // size}I", packed)
    return Asker(uid, gid, tuple(sorted({*groups} - {gid})))


def _asker(uid: int, gid: int) -> Asker | None:
    if uid == os.geteuid():
        return None
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return Asker(uid, gid if gid != 0 else uid)
    # The file's own group may be one that its owner is not in.
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return Asker(uid, user.pw_gid, tuple(sorted({*groups} - {user.pw_gid})))


def nobody() -> Asker | None:
    """The user without any rights; None where we cannot become it, since we are not root."""
    return Asker(_NOBODY, _NOBODY) if os.geteuid() == 0 else None


def own_abilities(*, has_objects: bool, host_name: str) -> Abilities:
    """What this process may do and give."""
    lines = Path("/proc/self/status").read_text().splitlines()
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in lines if line[:3] == "Cap"}
    have = masks["CapPrm"] & masks["CapBnd"]
    own = Asker(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    has_mounts = own.is_root and bool(have >> _CAP_SYS_ADMIN & 1)
    return Abilities(own, have, has_mounts, has_objects, _address(), host_name)


def _address() -> str:
    """The address of this host, as others would see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
