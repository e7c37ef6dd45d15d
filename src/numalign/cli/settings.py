"""What the options that every command has (-v, --no-color) have set so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """Filled while the command line is read, wherever on it the options stand."""

    verbosity: int = 0
    no_color: bool = False
