"""Directories in memory: a tmpfs of its own for a volume, and its end."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

from numalign.core.errors import PeerError

_MNT_DETACH: Final = 2
_NOSUID_NODEV: Final = 2 | 4


def mount(path: Path, size_bytes: int | None) -> None:
    """Mounts an empty tmpfs for everybody; PeerError if the kernel refuses."""
    options = "mode=0777" if size_bytes is None else f"mode=0777,size={size_bytes}"
    flags = ctypes.c_ulong(_NOSUID_NODEV)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options.encode()):
        reason = os.strerror(ctypes.get_errno())
        raise PeerError(f"{path}: a directory in memory cannot be mounted: {reason}")


def unmount_below(directory: Path) -> None:
    """Unmounts what is mounted on the entries of a directory; whoever still uses it keeps it."""
    if not directory.is_dir():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for entry in directory.iterdir():
        if entry.is_mount():
            libc.umount2(os.fsencode(entry), _MNT_DETACH)
