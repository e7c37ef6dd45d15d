"""A small read-only view of files, so that a host and a capture of it are read by the same code.

Paths are relative to the root and have no leading slash: ``sys/devices/system/cpu/online``.
Links are followed, as the kernel's trees are full of them, but never out of the root: a link
that leads out is an error and not a hole, because somebody made it on purpose.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from numalign.core.errors import DiscoveryError

FILE_BYTES_MAX: Final = 16 * 1024 * 1024  # /proc/cpuinfo of 4,096 CPUs has 6 MiB
LINKS_MAX: Final = 40  # what the kernel follows in one path
_CHUNK_BYTES: Final = 65_536


class FileTree(Protocol):
    """What the readers of a machine need to know of its files."""

    @property
    def source(self) -> str:
        """What to call this tree in a message."""

    def read(self, path: str) -> str | None:
        """The text of a file, or None where there is no such readable file."""

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none where there is no such directory."""

    def exists(self, path: str) -> bool:
        """Whether something has this name, be it a link that leads nowhere."""


class DirTree:
    """A directory of the running host: ``/`` itself, ``/host`` in a container, or a capture."""

    def __init__(self, root: Path) -> None:
        self._source = str(root)
        self._prefix = os.path.realpath(root).rstrip("/") + "/"
        # Directories without the links in their names. sysfs does not move while we read it,
        # and a look at each step of each path would cost more than the reading.
        self._real_directories: dict[str, str | None] = {"": ""}

    @property
    def source(self) -> str:
        return self._source

    def read(self, path: str) -> str | None:
        """The text of a file under the root."""
        parent, _, name = path.rpartition("/")
        directory = self._real_directory(parent, LINKS_MAX)
        if directory is None:
            return None
        try:
            data = _file_bytes(self._source, f"{self._prefix}{directory}/{name}")
        except OSError as exc:
            if exc.errno != errno.ELOOP:
                return None
            target = self._real(path, LINKS_MAX)
            return None if target is None else self.read(target)
        return data.decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """The sorted names in a directory under the root."""
        directory = self._real_directory(path, LINKS_MAX)
        if directory is None:
            return []
        try:
            return sorted(os.listdir(self._prefix + directory))  # noqa: PTH208 - thrice as quick
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the root holds this name."""
        parent, _, name = path.rpartition("/")
        directory = self._real_directory(parent, LINKS_MAX)
        return directory is not None and os.path.lexists(f"{self._prefix}{directory}/{name}")

    def _real_directory(self, path: str, links_left: int) -> str | None:
        if path not in self._real_directories:
            self._real_directories[path] = self._real(path, links_left)
        return self._real_directories[path]

    def _real(self, path: str, links_left: int) -> str | None:
        """The same path without links; None where there is nothing."""
        parent, _, name = path.rpartition("/")
        base = self._real_directory(parent, links_left)
        if base is None:
            return None
        own = f"{base}/{name}" if base else name
        try:
            target = os.readlink(self._prefix + own)  # noqa: PTH115 - thrice as quick
        except OSError as exc:
            return own if exc.errno == errno.EINVAL else None  # EINVAL: there, and not a link
        if links_left == 0:
            return None
        return self._real(linked_path(self._source, own, target), links_left - 1)


class MappingTree:
    """Files that are already in memory, by path; directories are what the paths imply."""

    def __init__(
        self,
        files: Mapping[str, str | bytes | memoryview],
        *,
        links: Mapping[str, str] | None = None,
        source: str = "mapping",
    ) -> None:
        self._source = source
        self._files = {path.strip("/"): text for path, text in files.items()}
        self._links = {path.strip("/"): target for path, target in (links or {}).items()}
        self._children: dict[str, set[str]] = {}
        for path in (*self._files, *self._links):
            self._add(path)

    @property
    def source(self) -> str:
        return self._source

    def read(self, path: str) -> str | None:
        found = self._files.get(path)
        if found is None and self._links:
            found = self._files.get(self._real(path))
        if found is None or isinstance(found, str):
            return found
        return bytes(found).decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """The sorted names that the paths imply."""
        found = self._children.get(path)
        if found is None and self._links:
            found = self._children.get(self._real(path))
        return sorted(found or ())

    def exists(self, path: str) -> bool:
        """Whether a path has this name as its start."""
        parent, _, name = path.rpartition("/")
        return name in self.names(parent)

    def _add(self, path: str) -> None:
        while True:
            parent, _, name = path.rpartition("/")
            known = self._children.setdefault(parent, set())
            if name in known:
                return
            known.add(name)
            if not parent:
                return
            path = parent

    def _real(self, path: str) -> str:
        """The same path without links, or one that nothing has where they run in a circle."""
        done = ""
        todo = path.split("/")[::-1]
        links_left = LINKS_MAX
        while todo:
            step = todo.pop()
            own = f"{done}/{step}" if done else step
            target = self._links.get(own)
            if target is None:
                done = own
                continue
            links_left -= 1
            if links_left == 0:
                return "\0"
            todo.extend(linked_path(self._source, own, target).split("/")[::-1])
            done = ""
        return done


def linked_path(source: str, link: str, target: str) -> str:
    """Where a link leads, from the root; DiscoveryError where that is outside."""
    steps = link.split("/")[:-1]
    if target.startswith("/"):
        raise _leads_out(source, link, target)
    for step in target.split("/"):
        if step == "..":
            if not steps:
                raise _leads_out(source, link, target)
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(steps)


def _leads_out(source: str, link: str, target: str) -> DiscoveryError:
    return DiscoveryError(
        source,
        f"the link {link} to {target}, which leads out of the tree",
        "links that stay inside",
        "Remove the link, or make the capture again with relative links.",
    )


def _file_bytes(source: str, path: str) -> bytes:
    # O_NONBLOCK: a named pipe in a capture must not hold us. O_NOFOLLOW: links are ours to follow.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(handle, _CHUNK_BYTES)
        chunk = data
        # Files of /proc and /sys give less than was asked for without being at their end.
        while chunk:
            chunk = os.read(handle, _CHUNK_BYTES)
            data += chunk
            if len(data) > FILE_BYTES_MAX:
                raise DiscoveryError(
                    source, f"more than {FILE_BYTES_MAX} bytes in {path}", "a small text file"
                )
        return data
    finally:
        os.close(handle)
