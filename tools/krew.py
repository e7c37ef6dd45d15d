"""The archive and the manifest of the krew plugin: ``python -m tools.krew URL DIRECTORY``.

URL is where the archive will lie. The same sources give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Final

import yaml

from numalign import __version__

CHECKOUT: Final = Path(__file__).parents[1]
ARCHIVE: Final = "kubectl-numa.tar.gz"
MANIFEST: Final = "numa.yaml"
_CAVEATS: Final = """\
The plugin is a Python program: pipx install 'numalign[cluster]'
"""
_DESCRIPTION: Final = """\
Shows the hosts of a cluster by NUMA node with what is free, where the containers of pods sit, which
hosts would take a pod and why not the others, how many more pods of a shape fit, and which moves
would let a pod in. Every answer is that of the kubelet's own rules.
"""


def archive() -> bytes:
    """The plugin's archive, the same each time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, mode in ((CHECKOUT / "LICENSE", 0o644), (_launcher(), 0o755)):
            member = tarfile.TarInfo(path.name)
            member.size, member.mode = path.stat().st_size, mode
            with path.open("rb") as file:
                tar.addfile(member, file)
    return gzip.compress(raw.getvalue(), mtime=0)


def manifest(url: str) -> str:
    """The plugin's manifest, for an archive at this address."""
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "numa"},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": "See and plan NUMA placement of pods",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux"}},
                    "uri": url,
                    "sha256": hashlib.sha256(archive()).hexdigest(),
                    "bin": _launcher().name,
                    "files": [
                        {"from": _launcher().name, "to": "."},
                        {"from": "LICENSE", "to": "."},
                    ],
                }
            ],
        },
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def _launcher() -> Path:
    return CHECKOUT / "packaging" / "krew" / "kubectl-numa"


def main() -> int:
    """Writes both."""
    url, directory = sys.argv[1], Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ARCHIVE).write_bytes(archive())
    (directory / MANIFEST).write_text(manifest(url))
    return 0


if __name__ == "__main__":
    sys.exit(main())
