"""Debian packages, fetched with lists of their own and unpacked; the host's stay as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tests.real.kept import MissingError
from tools.image import debian

STABLE: Final = "bookworm"  # the suite of the hosts that tests run on


def unpacked_packages(what: str, scratch: Path, suite: str, *wanted: str) -> Path:
    """The files of packages, below one directory; MissingError where they cannot be had."""
    own = Path(tempfile.mkdtemp(dir=scratch))
    unpacked = own / "unpacked"
    try:
        sources = [debian.Source(debian.main_archive(), tuple({STABLE: 0, suite: 0}))]
        debian.unpack(debian.download(own, sources, wanted), unpacked)
    except debian.FetchError as error:
        raise MissingError(f"{what}: {error}") from error
    return unpacked


def program_of(unpacked: Path, name: str) -> Path:
    """A program in one of the places where packages put them; not a link to another place."""
    found = [*unpacked.glob(f"*bin/{name}"), *unpacked.glob(f"usr/*bin/{name}")]
    return next(path for path in found if path.is_file() and not path.is_symlink())
