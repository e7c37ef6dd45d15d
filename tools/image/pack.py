"""Writes an image as an OCI archive: the same files give the same bytes.

Run by the Python of the image, since the compressed form depends on the version of zlib.

    python pack.py CONFIG.json OUT.tar LAYER...
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import stat
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_MEDIA = "application/vnd.oci.image"
_OPEN_TO_ALL = {"tmp", "var/tmp"}


def add_files(tar: tarfile.TarFile, layer: Path, seconds: int) -> None:
    """All files of a folder, sorted, owned by root, with one time and modes of their own."""
    for path in sorted(_below(layer)):
        name = path.relative_to(layer).as_posix()
        info = tarfile.TarInfo(name)
        info.mtime = seconds
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, str(path.readlink())
            tar.addfile(info)
        elif stat.S_ISDIR(found.st_mode):
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name in _OPEN_TO_ALL else 0o755
            tar.addfile(info)
        else:
            info.mode = 0o755 if found.st_mode & 0o111 else 0o644
            info.size = found.st_size
            with path.open("rb") as data:
                tar.addfile(info, data)


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


class _Counted(io.RawIOBase):
    """Passes bytes on and hashes them."""

    def __init__(self, target: IO[bytes] | gzip.GzipFile) -> None:
        self.hash = hashlib.sha256()
        self.size = 0
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._target.write(data)

    def tell(self) -> int:
        return self.size

    @property
    def digest(self) -> str:
        return f"sha256:{self.hash.hexdigest()}"


def pack_layer(layer: Path, blobs: Path, seconds: int) -> tuple[dict[str, Any], str]:
    """Writes a layer; its descriptor, and the digest of what is inside the compression."""
    made = blobs / "new"
    with made.open("wb") as file:
        packed = _Counted(file)
        # No name and no time in the header.
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=packed, mtime=0) as pressed:
            plain = _Counted(pressed)
            with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
                add_files(tar, layer, seconds)
    made.rename(blobs / packed.hash.hexdigest())
    media = f"{_MEDIA}.layer.v1.tar+gzip"
    return {"mediaType": media, "digest": packed.digest, "size": packed.size}, plain.digest


def _blob(blobs: Path, content: object, kind: str) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}


def pack(settings: dict[str, Any], out: Path, layers: list[Path]) -> str:
    """Writes the archive; the digest of the image."""
    blobs = out.with_name(f"{out.name}.blobs")
    blobs.mkdir()
    seconds = settings["seconds"]
    made = [pack_layer(layer, blobs, seconds) for layer in layers]
    history = [{"created": settings["created"], "created_by": name} for name in settings["steps"]]
    config = {
        "architecture": settings["architecture"],
        "os": "linux",
        "created": settings["created"],
        "config": settings["config"],
        "rootfs": {"type": "layers", "diff_ids": [plain for _, plain in made]},
        "history": history,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _blob(blobs, config, "config.v1+json"),
        "layers": [descriptor for descriptor, _ in made],
        "annotations": settings["annotations"],
    }
    entry = _blob(blobs, manifest, "manifest.v1+json")
    entry["platform"] = {"architecture": settings["architecture"], "os": "linux"}
    entry["annotations"] = {
        "io.containerd.image.name": settings["name"],
        "org.opencontainers.image.ref.name": settings["name"].rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.index.v1+json",
        "manifests": [entry],
    }
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', seconds)
        _add(tar, "index.json", json.dumps(index, sort_keys=True).encode(), seconds)
        for path in sorted(blobs.iterdir()):
            _add(tar, f"blobs/sha256/{path.name}", path.read_bytes(), seconds)
            path.unlink()
    blobs.rmdir()
    return str(entry["digest"])


def _add(tar: tarfile.TarFile, name: str, data: bytes, seconds: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o644, seconds
    tar.addfile(info, io.BytesIO(data))


def main(arguments: list[str]) -> None:
    """For the command line."""
    config, out, *layers = arguments
    settings = json.loads(Path(config).read_text())
    sys.stdout.write(pack(settings, Path(out), [Path(layer) for layer in layers]))


if __name__ == "__main__":
    main(sys.argv[1:])
