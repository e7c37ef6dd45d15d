"""What a delivery is made of, as CycloneDX.

    python -m tools.sbom      writes packaging/sbom.cdx.json, which is part of the wheel

That one lists the versions that ``packaging/requirements.lock`` names: a wheel brings no package
with it, and these are the ones it was tested with. The image has its own, of what is inside.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

CHECKOUT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = CHECKOUT / "packaging" / "requirements.lock"
OUT: Final = CHECKOUT / "packaging" / "sbom.cdx.json"
NAME: Final = "numalign"
_NOT_LINUX: Final = re.compile(r"== '(win32|emscripten)'")
_ENTRY: Final = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9._]*)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One package."""

    name: str
    version: str
    purl: str
    licence: str = ""
    sha256: str = ""
    condition: str = ""  # under which it is installed

    def plain(self) -> dict[str, Any]:
        """As CycloneDX has it."""
        found: dict[str, Any] = {
            "type": "library",
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            "purl": self.purl,
        }
        if self.licence:
            found["licenses"] = [{"license": {"name": self.licence}}]
        if self.sha256:
            found["hashes"] = [{"alg": "SHA-256", "content": self.sha256}]
        if self.condition:
            found["properties"] = [{"name": "numalign:installed-if", "value": self.condition}]
        return found


def document(subject: dict[str, Any], components: Iterable[Component]) -> str:
    """The text: nothing in it changes unless a component does."""
    listed = sorted(components, key=lambda one: one.purl)
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": subject},
        "components": [one.plain() for one in listed],
        "dependencies": [
            {"ref": subject["bom-ref"], "dependsOn": [one.purl for one in listed]},
        ],
    }
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def python_purl(name: str, version: str) -> str:
    """The address of a package from PyPI."""
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{quote(version)}"


def from_lock(lock: str) -> Iterator[Component]:
    """The packages of a lock file that are for Linux; licences as they are installed here."""
    for line in lock.splitlines():
        found = _ENTRY.match(line)
        if found is None or _NOT_LINUX.search(found[3] or ""):
            continue
        name, version, condition = found[1], found[2], (found[3] or "").strip()
        yield Component(
            name=name,
            version=version,
            purl=python_purl(name, version),
            licence=_installed_licence(name),
            condition="" if "sys_platform" in condition else condition,
        )


def from_installed(site: Path) -> Iterator[Component]:
    """The packages below a folder of installed ones, but our own."""
    for path in sorted(site.glob("*.dist-info/METADATA")):
        headers = HeaderParser().parsestr(path.read_text())
        name, version = headers["Name"], headers["Version"]
        if name != NAME:
            purl = python_purl(name, version)
            licence = _licence(headers)
            yield Component(name=name, version=version, purl=purl, licence=licence)


def from_debian(lock: str, suite: str) -> Iterator[Component]:
    """The packages that the first layer of an image was made of."""
    for line in lock.splitlines():
        package, digest = line.split()
        name, version = package.split("=")
        purl = f"pkg:deb/debian/{name}@{quote(version)}?distro={suite}"
        sha256 = digest.removeprefix("sha256:")
        yield Component(name=name, version=version, purl=purl, sha256=sha256)


def _installed_licence(name: str) -> str:
    try:
        return _licence(metadata.metadata(name))
    except metadata.PackageNotFoundError:
        return ""


def _licence(headers: Message | metadata.PackageMetadata) -> str:
    """The expression, or the short form of the older field, or what the classifiers say."""
    for key in ("License-Expression", "License"):
        said = str(headers[key]) if key in headers else ""
        if said and "\n" not in said and said != "UNKNOWN":
            return said
    classifiers = headers.get_all("Classifier") or ()
    found = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::")]
    return " OR ".join(found)


def wheel_sbom() -> str:
    """The one that is in the wheel."""
    text = (CHECKOUT / "src" / "numalign" / "__init__.py").read_text()
    version = re.findall(r'^__version__ = "(.+)"', text, re.MULTILINE)[0]
    subject = {
        "type": "application",
        "bom-ref": python_purl(NAME, version),
        "name": NAME,
        "version": version,
        "purl": python_purl(NAME, version),
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return document(subject, from_lock(LOCK.read_text()))


def main() -> int:
    """Writes it."""
    OUT.write_text(wheel_sbom())
    sys.stdout.write(f"wrote {OUT.relative_to(CHECKOUT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
