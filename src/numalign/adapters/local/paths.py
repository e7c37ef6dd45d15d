"""Where the agent keeps its things and where its clients look for it."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from numalign.adapters.local.private import check_private
from numalign.core.errors import ConfigError

SOCKET_NAME: Final = "agent.sock"
TOKEN_NAME: Final = "api-token"  # noqa: S105 - the name of a file
READ_TOKEN_NAME: Final = "read-token"  # noqa: S105 - the name of a file
TOKEN_BYTES: Final = 32
_TOKEN_BYTES_MAX: Final = 1024


def state_directory(environ: Mapping[str, str] = os.environ, *, uid: int | None = None) -> Path:
    """The directory of the agent's state, unless the operator names another."""
    if (os.geteuid() if uid is None else uid) == 0:
        return Path("/var/lib/numalign")
    base = environ.get("XDG_STATE_HOME", "")
    # A relative path is to be ignored, says the XDG specification.
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "numalign"


def trial_directory() -> Path:
    """The directory of ``numalign up``: private too, and apart from that of the agent."""
    return state_directory() / "up"


def cgroup_parent(directory: Path) -> str:
    """The group above all containers of the agent with this state directory.

    What is found there without a record is ended, so no two agents may have the same.
    """
    if directory == state_directory():
        return "numalign"
    return f"numalign-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"


def example_pods() -> Path:
    """The example manifests: of the installed package, or of the checkout."""
    package = Path(__file__).parents[2]
    packaged = package / "_examples" / "pods"
    return packaged if packaged.is_dir() else package.parents[1] / "examples" / "pods"


def socket_path(directory: Path) -> Path:
    return directory / SOCKET_NAME


def token_path(directory: Path) -> Path:
    """The file with the token that allows changes over TCP."""
    return directory / TOKEN_NAME


def read_token(path: Path) -> str:
    """The token of a file; ConfigError if others know it or could have written it, or if none."""
    check_private(path)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(_TOKEN_BYTES_MAX + 1)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ConfigError(f"{path}: cannot read the token: {reason}.") from exc
    if mode & 0o077:
        raise ConfigError(
            f"{path}: found mode {mode:04o}, expected 0600: others may have read the token. "
            "Remove the file and restart the agent, which makes a new one."
        )
    token = data.decode("ascii", "replace").strip()
    if not token or len(data) > _TOKEN_BYTES_MAX or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{path}: found no token, expected one line of text. Remove the file and restart the "
            "agent, which makes a new one."
        )
    return token


def token_of(directory: Path, name: str = TOKEN_NAME) -> str:
    """A token of an agent's state directory, made on first use."""
    path = directory / name
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        return read_token(path)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ConfigError(f"{path}: cannot make the token: {reason}.") from exc
    with os.fdopen(fd, "w", encoding="ascii") as file:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return token
