"""Debian packages from the mirror that this host uses, without touching the host's own apt.

apt gets lists, a cache and a configuration of its own; packages are unpacked, and none of their
scripts run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECONDS_MAX: Final = 600
_KEYRINGS: Final = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_SHOWN: Final = 300  # characters of what a command said


class FetchError(Exception):
    """Packages cannot be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """An archive and the suites that are taken from it."""

    uri: str
    suites: tuple[str, ...]


def archives() -> list[str]:
    """The Debian archives that this host's apt uses."""
    texts = [p.read_text() for p in sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    found = [
        uri
        for text in texts
        for line in re.findall(r"^URIs:\s*(.+)", text, re.MULTILINE)
        for uri in line.split()
    ]
    with suppress(OSError):
        lines = Path("/etc/apt/sources.list").read_text()
        found += re.findall(r"^deb\s+(?:\[.*?\]\s+)?(\S+)", lines, re.MULTILINE)
    return list(dict.fromkeys(found))


def archive(name: str) -> str | None:
    """The host's archive whose address ends so: ``debian`` or ``debian-security``."""
    ends = f"/{name}"
    return next((uri for uri in archives() if uri.rstrip("/").endswith(ends)), None)


def main_archive() -> str:
    """The archive of the distribution itself."""
    found = archive("debian")
    if found is None:
        raise FetchError("packages are fetched from a Debian mirror: apt names none here")
    return found


def stable_sources(suite: str) -> list[Source]:
    """A stable suite with its updates, and those of security where this host knows them."""
    found = [Source(main_archive(), (suite, f"{suite}-updates"))]
    if security := archive("debian-security"):
        found.append(Source(security, (f"{suite}-security",)))
    return found


def download(scratch: Path, sources: Iterable[Source], wanted: Sequence[str]) -> list[Path]:
    """The packages (``name``, ``name=version`` or ``name/suite``) as files, sorted by name."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise FetchError(f"packages are fetched with apt-get and dpkg: no {program} here")
    apt, packages = scratch / "apt", scratch / "packages"
    for path in ("lists/partial", "cache/archives/partial", "parts"):
        (apt / path).mkdir(parents=True)
    packages.mkdir()
    keyring = next((path for path in _KEYRINGS if path.exists()), _KEYRINGS[0])
    (apt / "parts" / "debian.sources").write_text(
        "\n".join(
            f"Types: deb\nURIs: {source.uri}\nSuites: {' '.join(source.suites)}\n"
            f"Components: main\nSigned-By: {keyring}\n"
            for source in sources
        )
    )
    (apt / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{apt}/parts";\n'
        f'Dir::Etc::preferencesparts "/dev/null";\nDir::State::lists "{apt}/lists";\n'
        f'Dir::Cache "{apt}/cache";\nAcquire::Languages "none";\nAPT::Sandbox::User "root";\n'
    )
    env = {"APT_CONFIG": str(apt / "apt.conf")}
    called(["apt-get", "-qq", "update"], env=env)
    called(["apt-get", "-qq", "download", *wanted], env=env, folder=packages)
    return sorted(packages.glob("*.deb"))


def unpack(packages: Iterable[Path], folder: Path) -> None:
    """Unpacks them over each other."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        called(["dpkg-deb", "-x", str(package), str(folder)])


def fields(package: Path) -> str:
    """What a package says of itself, as in dpkg's own records."""
    return called(["dpkg-deb", "--field", str(package)])


def called(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """What a command prints; FetchError with the end of what it said if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - the commands stand here
            command,
            cwd=folder,
            env={**os.environ, **(env or {})},
            timeout=SECONDS_MAX,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{command[0]}: no end after {SECONDS_MAX} s") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[-_SHOWN:]
        raise FetchError(f"{' '.join(command[:3])}: {said}")
    return done.stdout
