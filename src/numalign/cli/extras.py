"""What a command needs beyond the smallest installation, and how it is had."""

from __future__ import annotations

from typing import Final

from numalign.core.errors import ConfigError

# By package as it is imported: the extra that brings it.
_EXTRA_OF: Final = {
    "httpx2": "cluster",
    "lightkube": "cluster",
    "numpy": "cluster",
    "resvg_py": "png",
    "ttf_opensans": "png",
}
# Commands with an extra of their own, which is smaller.
_EXTRA_FOR: Final = {"simulate": "sim"}


def not_installed(error: ModuleNotFoundError, command: str) -> ConfigError | None:
    """What to say when a package of an extra could not be loaded; None for any other module."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(package)
    if extra is None:
        return None
    extra = _EXTRA_FOR.get(command, extra)
    return ConfigError(
        f"this command needs {package}, which is not installed here: "
        f"pip install 'numalign[{extra}]'"
    )
