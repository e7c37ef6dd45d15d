"""Whether a path is ours alone: nobody else can have made it, nor can change what lies there.

Who can write to a directory decides what every path through it means. So each component is looked
at, from the root on: it belongs to us or to root, and others may not write to it. A sticky
directory such as /tmp may stand in between, since there only the owner of an entry can replace it.
Once a component has passed, nobody can change what it means for the next one.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from numalign.core.errors import ConfigError

ROOT_UID: Final = 0
LINKS_MAX: Final = 40  # as in the kernel
PRIVATE_DIRECTORY: Final = 0o700
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def make_private(directory: Path) -> None:
    """Makes a directory that is ours alone, or refuses one that is not."""
    missing = []
    at = directory.absolute()
    while not os.path.lexists(at):
        missing.append(at)
        at = at.parent
    check_private(at, is_shared=bool(missing))
    for one in reversed(missing):
        try:
            one.mkdir(mode=PRIVATE_DIRECTORY)  # whatever the umask leaves to others
        except OSError as error:
            raise ConfigError(f"{one}: cannot be made: {error.strerror}.") from error
    check_private(directory)
    if not directory.is_dir():
        raise ConfigError(f"{directory}: found no directory. Name another with --state-dir.")


def check_private(path: Path, *, is_shared: bool = False) -> None:
    """ConfigError unless every component of a path is ours or root's, and only ours to write.

    One that ``is_shared`` may be sticky at its end too: what we make there stays ours.
    """
    _walk(Path("/"), path.absolute().parts[1:], links_left=LINKS_MAX, is_shared=is_shared)


def check_contents(directory: Path, patterns: Iterable[str]) -> None:
    """ConfigError if something in a directory, by name, is not ours alone."""
    for pattern in patterns:
        for path in directory.glob(pattern):
            check_private(path)


def _walk(at: Path, names: tuple[str, ...], *, links_left: int, is_shared: bool) -> None:
    """Looks at a directory, then at what each name leads to from there."""
    found = _looked_at(at)
    _check_owner(at, found)
    is_sticky = (names or is_shared) and found.st_mode & stat.S_ISVTX
    if _others_write(found) and not is_sticky:
        raise _refusal(at, f"mode {stat.S_IMODE(found.st_mode):04o}, so that others may write")
    if not names:
        return
    name, *rest = names
    below = at.parent if name == ".." else at / name
    entry = _looked_at(below)
    start: Path = below
    parts: tuple[str, ...] = ()
    if stat.S_ISLNK(entry.st_mode):
        _check_owner(below, entry)
        if links_left == 0:
            raise ConfigError(f"{below}: found a loop of links. Name another place.")
        target, links_left = below.readlink(), links_left - 1
        start, parts = (Path("/"), target.parts[1:]) if target.is_absolute() else (at, target.parts)
    _walk(start, (*parts, *rest), links_left=links_left, is_shared=is_shared)


def _looked_at(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except OSError as error:
        raise ConfigError(f"{path}: cannot look at it: {error.strerror}.") from error


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in {ROOT_UID, os.geteuid()}:
        raise _refusal(path, f"the owner {_user(found.st_uid)}")


def _others_write(found: os.stat_result) -> bool:
    writable = found.st_mode & _OTHERS_WRITE
    if writable == stat.S_IWGRP and _is_own_group(found.st_gid):
        return False
    return bool(writable)


def _is_own_group(gid: int) -> bool:
    """Whether a group is the one that some systems give each user, with nobody else in it."""
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    if (user.pw_gid, user.pw_name) != (gid, group.gr_name) or set(group.gr_mem) - {user.pw_name}:
        return False
    return all(one.pw_uid == user.pw_uid for one in pwd.getpwall() if one.pw_gid == gid)


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _refusal(path: Path, found: str) -> ConfigError:
    ours = "root" if os.geteuid() == ROOT_UID else f"root or {_user(os.geteuid())}"
    return ConfigError(
        f"{path}: found {found}; expected it to belong to {ours} and to be writable by nobody "
        "else: whoever can write there could run commands as us. Look at what it is and remove "
        "it, or name another place (--state-dir, --socket)."
    )
