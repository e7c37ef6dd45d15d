"""The file of reference shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from numalign.adapters.local.files import read_bounded, reason_of
from numalign.core.errors import ConfigError
from numalign.core.fleet.measures import Mix
from numalign.wire.fleet.shapes import reference_mix

BYTES_MAX: Final = 1 << 20


def read_mix(path: Path | None) -> Mix:
    """The shapes of a file; none without one."""
    if path is None:
        return ()
    try:
        data = read_bounded(path, BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {reason_of(error)}") from error
    return reference_mix(data, str(path))
