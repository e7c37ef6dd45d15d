"""Our own container image, built once for each state of what it is made of."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Final

from tests.paths import CHECKOUT
from tests.real.kept import MissingError, cache, kept, say
from tools.image import __main__ as image
from tools.image.debian import FetchError

NAME: Final = "localhost/numalign"
KEPT_MAX: Final = 5  # of earlier states; each is 55 MB
_MADE_OF: Final = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "packaging/requirements.lock",
    "packaging/sbom.cdx.json",
    "tools",
    "src",
    "examples/pods",
)


def own_image() -> Path:
    """The archive; a minute the first time, with network. MissingError without Debian's apt."""
    return kept(cache() / "own-image" / f"{_fingerprint()}.oci.tar", partial(_build, NAME))


def _build(name: str, scratch: Path, ready: Path) -> None:
    say("building our container image")
    try:
        image.build(scratch / "out", name, packages=(), leave_out=())
    except FetchError as error:
        raise MissingError(f"no container image: {error}") from error
    next((scratch / "out").glob("*.oci.tar")).rename(ready)
    before = sorted(
        (cache() / "own-image").glob("*.oci.tar"), key=lambda path: path.stat().st_mtime
    )
    for old in before[:-KEPT_MAX]:
        old.unlink()


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for top in _MADE_OF:
        path = CHECKOUT / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(CHECKOUT)
                digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
