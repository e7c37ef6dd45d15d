"""Bundles of captured hosts on the disk: packed in one file, or unpacked in a directory."""

from __future__ import annotations

import os
from pathlib import Path

from numalign.adapters.local.packed import read_file, unpacked
from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.adapters.sources.tartree import is_tar, tar_members
from numalign.core.errors import WireError
from numalign.core.machine.machine import Machine
from numalign.wire import bundle
from numalign.wire.bundle import ABOUT, MACHINE, Bundle
from numalign.wire.machine import machine_yaml

FILES_MAX = 1_000
BYTES_MAX = 256 * 1024 * 1024


def read_bundle(path: Path) -> Bundle:
    """The bundle at a path; WireError or DiscoveryError where there is none."""
    source = str(path)
    if path.is_dir():
        return bundle.bundle_of(_directory_files(path, source), source)
    return bundle_from_bytes(read_file(path, source), source)


def bundle_from_bytes(data: bytes, source: str) -> Bundle:
    """The bundle in the bytes of a file."""
    plain = unpacked(data, source)
    if not is_tar(plain):
        raise WireError(f"{source}: found no tar archive, expected a bundle of 'numalign capture'.")
    files, links = tar_members(plain, source)
    if links:
        raise WireError(f"{source}: found the link {min(links)}, expected plain files only.")
    return bundle.bundle_of({path: bytes(view) for path, view in files.items()}, source)


def holds_bundle(path: Path) -> bool:
    """Whether a file or directory is meant to be a bundle, be it a damaged one."""
    if path.is_dir():
        return (path / ABOUT).is_file()
    source = str(path)
    plain = unpacked(read_file(path, source), source)
    return is_tar(plain) and starts_bundle(plain)


def starts_bundle(plain: bytes) -> bool:
    """Whether an unpacked archive begins as a bundle does: with the list of its members."""
    return plain[:100].rstrip(b"\0") == ABOUT.encode()


def machine_of(found: Bundle, source: str) -> Machine:
    form = found.files.get(MACHINE)
    if form is not None:
        try:
            return machine_yaml.load(form.decode(), f"{source}: {MACHINE}")
        except UnicodeDecodeError as exc:
            raise WireError(f"{source}: {MACHINE}: found no text. Capture the host again.") from exc
    return read_machine(MappingTree(found.kernel_files(source), source=source), found.about.host)


def _directory_files(root: Path, source: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    total = 0
    for directory, names, files in os.walk(root):
        names.sort()
        for name in sorted(files):
            path = Path(directory, name)
            if path.is_symlink():
                raise WireError(f"{path}: found a link, expected plain files only.")
            data = read_file(path, str(path))
            total += len(data)
            if len(found) == FILES_MAX or total > BYTES_MAX:
                raise WireError(f"{source}: found more than one host's files.")
            found[path.relative_to(root).as_posix()] = data
    return found
