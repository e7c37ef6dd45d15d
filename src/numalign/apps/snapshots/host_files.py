"""The files of a kubelet: its state and its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from numalign.adapters.local.files import read_small
from numalign.core.errors import ConfigError, WireError
from numalign.wire import yaml as plain_yaml
from numalign.wire.checkpoints.state_files import PLACES

CONFIG_BYTES_MAX: Final = 1024 * 1024
STATE_BYTES_MAX: Final = 64 * 1024 * 1024


def state_files(directory: Path) -> dict[str, bytes]:
    """The state files of a directory such as /var/lib/kubelet, those that are there."""
    if not directory.is_dir():
        raise ConfigError(f"{directory}: found no directory, expected one with state files.")
    found: dict[str, bytes] = {}
    for name, place in PLACES.items():
        for path in (directory / place, directory / name):  # a copy may be flat
            data = read_small(path, STATE_BYTES_MAX)
            if data is not None:
                found[name] = data
                break
    return found


def read_yaml(path: Path, advice: str = "") -> tuple[bytes, Any]:
    """The bytes of a configuration file, and its content."""
    data = read_small(path, CONFIG_BYTES_MAX)
    if data is None:
        raise ConfigError(f"{path}: there is no such file.{advice}")
    try:
        return data, plain_yaml.load(data)
    except WireError as error:
        raise ConfigError(f"{path}: {error}") from error
