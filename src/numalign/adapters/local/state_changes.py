"""Notices that the kubelet (or our agent) has written its state files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from numalign.wire.checkpoints import state_files

FILES: Final = tuple(state_files.PLACES.values())


class StateChanges:
    """Compares what the files look like with what they looked like the last time.

    Asked once a second this costs three calls, needs no watch that a full host may be out of, and
    works on every file system. The files are replaced by renaming, so no change is missed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether a file is other than at the last call."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_mark(self._root / name) for name in FILES)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
