"""Where commands look for the agent of this user: in the usual place, else that of ``numalign up``.

An agent that is tried out notes its socket in the usual state directory for as long as it runs, so
that ``numalign get pods`` finds it wherever its own state is.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from numalign.adapters.local import paths
from numalign.adapters.local.files import read_small, replace_file
from numalign.adapters.local.private import check_private, make_private
from numalign.core.errors import NumalignError

_NOTE_NAME: Final = "trial-socket"
_PATH_BYTES_MAX: Final = 4096


@contextlib.contextmanager
def noted(where: Path, usual: Path | None = None) -> Iterator[None]:
    """Notes this socket as that of the trial for the time of the block, if that can be done.

    ``usual`` is the state directory in which commands look first.
    """
    note = (usual or paths.state_directory()) / _NOTE_NAME
    data = os.fsencode(where)
    try:
        make_private(note.parent)
        replace_file(note, data)
    except (OSError, NumalignError):
        yield  # commands then need --socket
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if read_small(note, _PATH_BYTES_MAX) == data:
                note.unlink()


def agent_socket(usual: Path | None = None) -> tuple[Path, bool]:
    """The socket to ask, and whether it is that of a trial."""
    directory = usual or paths.state_directory()
    own = paths.socket_path(directory)
    if _answers(own):
        return own, False
    trial = _trial(directory / _NOTE_NAME)
    return (own, False) if trial is None or not _answers(trial) else (trial, True)


def _trial(note: Path) -> Path | None:
    try:
        check_private(note)
        data = read_small(note, _PATH_BYTES_MAX)
        if data is None:
            return None
        found = Path(os.fsdecode(data))
        check_private(found)
    except (OSError, NumalignError):
        return None
    return found


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one, contextlib.suppress(OSError):
        one.connect(os.fspath(path))
        return True
    return False
