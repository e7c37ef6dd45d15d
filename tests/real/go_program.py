"""Programs built with Go from published modules.

The first build needs the network and takes minutes with an empty cache of Go's; after that a
program is used again until its sources or the Go version change.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.real.kept import MissingError, cache, kept, output, say

BUILD_SECONDS_MAX: Final = 3600
# The same sources give the same program, wherever the checkout lies.
_FLAGS: Final = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w")


def go_program(
    name: str,
    module: Path,
    package: str,
    *,
    flags: Sequence[str] = (),
    report: Callable[[str], None] = say,
) -> Path:
    """A program of a module in this checkout.

    Raises MissingError without Go and CommandError if the build fails.
    """
    # Asked in the module, where go.mod may choose a newer toolchain.
    version = go_output(["env", "GOVERSION"], module, needed_for=name).strip()

    def build(_scratch: Path, ready: Path) -> None:
        report(f"building {name} with {version} (minutes the first time)")
        command = ["build", *_FLAGS, *flags, "-o", str(ready), package]
        go_output(command, module, needed_for=name)

    return kept(cache() / "go-programs" / _fingerprint(module, version) / name, build)


def build_published(
    scratch: Path,
    ready: Path,
    *,
    module: str,
    version: str,
    package: str,
    staged: Iterable[str] = (),
    link: str = "",
    tags: str = "",
    env: Mapping[str, str] | None = None,
) -> None:
    """Builds a program of a published module; ``staged``: modules of its own tree, as Go wants it.

    Raises MissingError without Go and CommandError if the build fails.
    """
    name = package.rpartition("/")[2]
    folder = scratch / f"module-{name}"
    folder.mkdir()
    lines = ["module programs", "go 1.25.0", f"require {module} v{version}"]
    lines += [f"replace {one} => {one} v0.{version.partition('.')[2]}" for one in staged]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    options = ["-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {link}".rstrip()]
    options += [f"-tags={tags}"] if tags else []
    command = ["build", *options, "-o", str(ready), package]
    go_output(command, folder, needed_for=name, env={"GOFLAGS": "", **(env or {})})


def source_of(module: str, version: str, scratch: Path) -> Path:
    """Where Go keeps the files of a published module."""
    command = ["mod", "download", "-json", f"{module}@v{version}"]
    answer = go_output(command, scratch, needed_for=module, env={"GOFLAGS": ""})
    return Path(json.loads(answer)["Dir"])


def go_output(
    arguments: Sequence[str],
    folder: Path,
    *,
    needed_for: str,
    env: Mapping[str, str] | None = None,
) -> str:
    """What the go command prints; it leaves the machine to others while it builds."""
    go = shutil.which("go")
    if go is None:
        raise MissingError(f"Go is not installed: {needed_for} cannot be built")
    return output(
        ["nice", "-n", "10", go, *arguments],
        seconds_max=BUILD_SECONDS_MAX,
        folder=folder,
        env={"CGO_ENABLED": "0", **(env or {})},
    )


def _fingerprint(module: Path, version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for path in sorted(module.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            content = path.read_bytes()
            name = path.relative_to(module)
            digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
