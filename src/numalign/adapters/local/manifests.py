"""A directory of manifests, watched: what is new, changed and gone.

Looked at once a second: cheap, and right on every filesystem. Names that begin with a dot are not
looked at, so a file can be written under such a name and renamed into place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from numalign.adapters.local.askers import check_directory, owner_of
from numalign.adapters.local.files import read_with_stat
from numalign.core.asker import Asker
from numalign.core.errors import WireError
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.workloads import expanded, split_by_name

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_MAX: Final = 10_000

Stamp = tuple[int, int, int, int]  # inode, size, times of the last change of content and owner


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pod of a manifest, with the uid that it has on this host."""

    uid: str
    record: PodRecord
    source: str
    asker: Asker | None = None  # the owner of the file; None: the agent's own user


@dataclass(frozen=True, slots=True)
class Changes:
    new: tuple[Manifest, ...] = ()
    gone: tuple[str, ...] = ()  # uids
    faults: tuple[str, ...] = ()  # files that are no manifests, one line each
    notes: tuple[str, ...] = ()  # what else there is to know of the files


@dataclass(slots=True)
class ManifestDirectory:
    root: Path
    host: str
    asker: Asker | None = None  # for whom all of it is, whoever wrote it; None: for its owners
    _stamps: dict[str, Stamp] = field(default_factory=dict)
    _uids: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by file name
    _is_refused: bool = False

    def changes(self) -> Changes:
        try:
            if self.asker is None:
                check_directory(self.root)
        except WireError as error:
            return self._nothing_read(str(error))
        self._is_refused = False
        seen = dict(self._listed())
        new: list[Manifest] = []
        gone: list[str] = []
        faults: list[str] = []
        notes: list[str] = []
        for name in [name for name in self._stamps if name not in seen]:
            del self._stamps[name]
            gone += self._uids.pop(name, ())
        for name, stamp in seen.items():
            if self._stamps.get(name) == stamp:
                continue
            self._stamps[name] = stamp
            before = self._uids.get(name, ())
            try:
                found, twice, told = self._read(name)
            except (WireError, OSError) as error:
                faults.append(str(error))
                continue  # what runs from an earlier version of the file goes on
            faults += twice
            notes += told
            uids = tuple(manifest.uid for manifest in found)
            self._uids[name] = uids
            gone += [uid for uid in before if uid not in uids]
            new += [manifest for manifest in found if manifest.uid not in before]
        return Changes(tuple(new), tuple(gone), tuple(faults), tuple(notes))

    def _nothing_read(self, fault: str) -> Changes:
        """A directory that is not trusted: what runs goes on, nothing new comes. Told once."""
        is_told, self._is_refused = self._is_refused, True
        return Changes(faults=() if is_told else (fault,))

    def _listed(self) -> Iterator[tuple[str, Stamp]]:
        count = 0
        with os.scandir(self.root) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name.startswith(".") or not entry.is_file():
                    continue
                count += 1
                if count > FILES_MAX:
                    return
                found = entry.stat()
                yield (
                    entry.name,
                    (
                        found.st_ino,
                        found.st_size,
                        found.st_mtime_ns,
                        found.st_ctime_ns,
                    ),
                )

    def _read(self, name: str) -> tuple[list[Manifest], list[str], list[str]]:
        """The pods of a file; those whose name it has twice, and what else to say of it."""
        path = self.root / name
        data, stat = read_with_stat(path, FILE_BYTES_MAX)
        asker = self.asker or owner_of(path, stat)
        found = expanded(data, source=str(path)).required()
        workloads, twice = split_by_name(found.workloads)
        pods = [self._manifest(name, pod, asker) for workload in workloads for pod in workload.pods]
        return pods, [one.text for one in twice], found.notes

    def _manifest(self, name: str, record: PodRecord, asker: Asker | None) -> Manifest:
        uid = record.metadata.uid or static_uid(record, self.host, name, asker)
        return Manifest(uid, record, f"file:{name}", asker)


def static_uid(record: PodRecord, host: str, name: str, asker: Asker | None = None) -> str:
    """A uid made of content, host, file and owner, so that a changed file is another pod.

    The kubelet does so for static pods, over its own form of the content.
    """
    text = msgspec.json.encode(record) + f"host:{host}file:{name}".encode()
    if asker is not None:
        text += f"owner:{asker.uid}:{asker.gid}".encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest()
