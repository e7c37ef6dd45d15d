"""Builds the image: an OCI archive, what it was made of, and its SBOM.

python -m tools.image                        # dist/numalign-VERSION-ARCHITECTURE.oci.tar
python -m tools.image --packages FILE        # of exactly the Debian packages of another build
python -m tools.image --layers FOLDER        # only the files, for packaging/Dockerfile
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools import sbom
from tools.image import rootfs
from tools.image.debian import FetchError

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
# One time for all files, as hatchling gives to those of the wheel.
SECONDS: Final = 1580601600
_PACK: Final = Path(__file__).with_name("pack.py")


def settings(name: str, version: str) -> dict[str, Any]:
    """What is said of the image besides its files."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", SECONDS))
    created = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "numalign",
        "org.opencontainers.image.description": (
            "Places work on NUMA machines exactly as the Kubernetes node managers do"
        ),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }
    return {
        "name": f"{name}:{version}",
        "architecture": ARCHITECTURES[platform.machine()],
        "seconds": seconds,
        "created": created,
        "steps": ["Debian packages", "packaging/requirements.lock", f"numalign {version}"],
        "annotations": {**labels, "org.opencontainers.image.created": created},
        "config": {
            "User": f"{rootfs.USER}:{rootfs.USER}",
            "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8"],
            "Entrypoint": ["/usr/local/bin/numalign"],
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "Labels": labels,
        },
    }


def build(out: Path, name: str, *, packages: Sequence[str], leave_out: Sequence[str]) -> str:
    """Builds everything; what was built, in a few lines."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        layers = Path(scratch) / "layers"
        rootfs.make(layers, packages=packages, leave_out=leave_out)
        version = _version(layers)
        said = settings(name, version)
        (Path(scratch) / "settings.json").write_text(json.dumps(said))
        archive = Path(scratch) / "image.oci.tar"
        python = rootfs.Interpreter(layers / rootfs.LAYERS[0])
        places = [str(layers / layer) for layer in rootfs.LAYERS]
        arguments = [str(_PACK), f"{scratch}/settings.json", str(archive), *places]
        digest = python.run(*arguments).strip()
        base = out / f"{name.rpartition('/')[2]}-{version}-{said['architecture']}"
        made = {
            Path(f"{base}.oci.tar"): archive,
            Path(f"{base}.packages.lock"): layers / rootfs.PACKAGES,
            Path(f"{base}.cdx.json"): Path(scratch) / "sbom",
        }
        (Path(scratch) / "sbom").write_text(_sbom(layers, said, digest, version))
        size = sum(p.lstat().st_size for p in layers.rglob("*") if not p.is_dir()) / 1e6
        for place, file in made.items():
            shutil.copyfile(file, place.with_name(f".{place.name}"))
            place.with_name(f".{place.name}").replace(place)
        packed = Path(f"{base}.oci.tar").stat().st_size / 1e6
    lines = [
        f"{said['name']} {digest}",
        f"{size:.0f} MB of files, {packed:.0f} MB to pull, {time.monotonic() - started:.0f} s",
        *(str(place) for place in made),
    ]
    return "".join(f"{line}\n" for line in lines)


def _version(layers: Path) -> str:
    [found] = (layers / rootfs.LAYERS[-1]).glob("**/numalign-*.dist-info")
    return found.name.removeprefix("numalign-").removesuffix(".dist-info")


def _sbom(layers: Path, said: dict[str, Any], digest: str, version: str) -> str:
    subject = {
        "type": "container",
        "bom-ref": f"pkg:oci/numalign@{digest}",
        "name": "numalign",
        "version": version,
        "purl": f"pkg:oci/numalign@{digest}?arch={said['architecture']}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    inside = list(sbom.from_debian((layers / rootfs.PACKAGES).read_text(), rootfs.SUITE))
    for layer in rootfs.LAYERS[1:]:
        inside += sbom.from_installed(layers / layer / rootfs.SITE)
    return sbom.document(subject, inside)


def main(arguments: Sequence[str]) -> int:
    """For the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--output", type=Path, default=rootfs.CHECKOUT / "dist")
    parser.add_argument("--name", default="numalign", help="repository, without a tag")
    parser.add_argument("--packages", type=Path, help="a .packages.lock of an earlier build")
    parser.add_argument("--without", action="append", default=[], metavar="PACKAGE")
    parser.add_argument("--layers", type=Path, help="make the files here and nothing else")
    asked = parser.parse_args(arguments)
    try:
        packages = asked.packages.read_text().splitlines() if asked.packages else ()
        if asked.layers:
            rootfs.make(asked.layers, packages=packages, leave_out=asked.without)
            return 0
        done = build(asked.output, asked.name, packages=packages, leave_out=asked.without)
    except (FetchError, OSError) as error:
        sys.stderr.write(f"error: no image was made: {error}\n")
        return 1
    sys.stdout.write(done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
