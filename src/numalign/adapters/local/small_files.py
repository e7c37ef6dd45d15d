"""Small files read whole, within a limit, with one clear message where that fails."""

from __future__ import annotations

from pathlib import Path

from numalign.core.errors import ConfigError


def read_small(path: Path, limit: int) -> bytes | None:
    """The bytes of a file, None where there is none; ConfigError if unreadable or too large."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"{path}: cannot be read: {reason}.") from error
    if len(data) > limit:
        raise ConfigError(f"{path}: found more than {limit} bytes.")
    return data
