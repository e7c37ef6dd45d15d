"""Small container images as OCI archives, made without a registry or a tool."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

APPLETS: Final = (
    "sh sleep cat ls grep taskset nproc true false echo env id mkdir touch stat kill dd hostname"
)
DIRECTORIES: Final = {"bin": 0o755, "tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755}
_MEDIA: Final = "application/vnd.oci.image"


def busybox_image(program: Path, archive: Path, reference: str, entry: Sequence[str]) -> None:
    """Writes an image with a static busybox, a few of its commands and nothing else."""
    layer = _layer(program.read_bytes(), {f"bin/{name}": "busybox" for name in APPLETS.split()})
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64")
    blobs: dict[str, bytes] = {}

    def kept(data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layer_entry = kept(layer, "layer.v1.tar")
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(entry)},
        "rootfs": {"type": "layers", "diff_ids": [layer_entry["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": kept(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer_entry],
    }
    listed = kept(json.dumps(manifest).encode(), "manifest.v1+json")
    listed["platform"] = {"architecture": architecture, "os": "linux"}
    listed["annotations"] = {"io.containerd.image.name": reference}
    index = {"schemaVersion": 2, "manifests": [listed]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for digest, data in blobs.items():
            _add(tar, f"blobs/sha256/{digest}", data)


def _layer(busybox: bytes, links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in DIRECTORIES.items():
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
