"""A directory of manifests, watched: what is new, changed and gone, and what is wrong with it.

Looked at once a second: cheap, and right on every filesystem. Names that begin with a dot are not
looked at, so a file can be written under such a name and renamed into place.

A file that cannot be understood is one problem of that file: what runs from its last good version
goes on, also over a restart (see ``remember``), and all other files are looked at as ever.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from numalign.adapters.local.askers import check_directory, owner_of
from numalign.adapters.local.files import Stamp, UnfitFileError, read_regular, reason_of, stamp_of
from numalign.core.asker import Asker
from numalign.core.errors import WireError, unexpected
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.workloads import expanded, split_by_name

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_MAX: Final = 10_000
SOURCE: Final = "file:"  # how the source of a pod from a manifest begins
PODS_MAX: Final = 10_000  # of all files together
# The kernel's clock of files stands still for some milliseconds: a change in them cannot be seen.
_SETTLED_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pod of a manifest, with the uid that it has on this host."""

    uid: str
    record: PodRecord
    source: str
    asker: Asker | None = None  # the owner of the file; None: the agent's own user


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file as it was found at the last look."""

    name: str
    pods: tuple[Manifest, ...] = ()  # of its last version that could be read
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a look at the directory has brought. A pod that was changed is gone and new."""

    new: tuple[Manifest, ...] = ()
    gone: tuple[str, ...] = ()  # uids
    faults: tuple[str, ...] = ()  # problems that were not there before, one line each
    notes: tuple[str, ...] = ()  # what else there is to know of the files
    files: tuple[ManifestFile, ...] = ()
    passed_over: int = 0  # files beyond the limit


@dataclass(slots=True)
class _File:
    pods: dict[str, Manifest] = field(default_factory=dict)  # by uid
    stamp: Stamp | None = None  # None: to be read at the next look
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ManifestDirectory:
    root: Path
    host: str
    asker: Asker | None = None  # for whom all of it is, whoever wrote it; None: for its owners
    files_max: int = FILES_MAX
    pods_max: int = PODS_MAX
    _files: dict[str, _File] = field(default_factory=dict)
    _holders: dict[str, str] = field(default_factory=dict)  # uid -> name of the file

    def remember(self, known: Iterable[Manifest]) -> None:
        """Tells which pods came from which file before this process began."""
        for pod in known:
            name = pod.source.removeprefix(SOURCE)
            self._files.setdefault(name, _File()).pods[pod.uid] = pod
            self._holders[pod.uid] = name

    def changes(self) -> Changes:
        """What has changed since the last look; OSError if the directory cannot be read.

        WireError if it is not to be trusted: what runs goes on, and nothing new comes.
        """
        if self.asker is None:
            check_directory(self.root)
        listed, passed_over = self._listed()
        before = self._all_pods()
        faults: list[str] = []
        notes: list[str] = []
        for name in self._files.keys() - set(listed):
            self._take(name, self._files.pop(name), ())
        for name in listed:
            known = self._files.setdefault(name, _File())
            said = known.problem, known.notes
            self._look_at(name, known)
            if known.problem and known.problem != said[0]:
                faults.append(f"{self.root / shown(name)}: {known.problem}")
            if known.notes != said[1]:
                notes += known.notes
        return _changes(before, self._all_pods(), self._shown(), faults, notes, passed_over)

    def _shown(self) -> tuple[ManifestFile, ...]:
        return tuple(
            ManifestFile(shown(name), tuple(f.pods.values()), f.problem, f.notes)
            for name, f in sorted(self._files.items())
        )

    def _listed(self) -> tuple[list[str], int]:
        """The names to look at, and how many are too many; those that are known come first."""
        with os.scandir(self.root) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
        names.sort(key=lambda name: (name not in self._files, os.fsencode(name)))
        return names[: self.files_max], max(0, len(names) - self.files_max)

    def _all_pods(self) -> dict[str, Manifest]:
        return {uid: pod for file in self._files.values() for uid, pod in file.pods.items()}

    def _look_at(self, name: str, known: _File) -> None:
        """Reads a file if it is not as it was."""
        try:
            if known.stamp is None or known.stamp != self._stamp(name):
                self._read(name, known)
        except FileNotFoundError:  # since the names were listed
            self._take(name, known, ())
            known.problem = ""
        except (WireError, UnfitFileError) as error:
            text = (error.strerror or "") if isinstance(error, OSError) else str(error)
            known.problem = self._without_path(name, text)
        except OSError as error:
            known.stamp, known.problem = None, f"it cannot be read: {reason_of(error)}"
        except Exception as error:
            known.problem = unexpected(error)

    def _stamp(self, name: str) -> Stamp | None:
        try:
            return stamp_of(os.stat(f"{self.root}/{name}"))  # noqa: PTH116 of all files, every second
        except OSError:
            return None  # reading it tells why

    def _read(self, name: str, known: _File) -> None:
        known.stamp = None
        if shown(name) != name:
            raise UnfitFileError("found a name that is not UTF-8, or not printable; rename it")
        data, found = read_regular(f"{self.root}/{name}", FILE_BYTES_MAX)
        stamp = stamp_of(found) if time.time_ns() - found.st_ctime_ns > _SETTLED_NS else None
        known.stamp = stamp
        asker = self.asker or owner_of(self.root / name, found)
        pods, twice, notes = self._pods(name, data, asker)
        known.stamp = None  # what is wrong from here on may be over without a change of this file
        self._check_room(name, known, pods)
        self._take(name, known, pods)
        known.stamp, known.problem, known.notes = stamp, "; ".join(twice), tuple(notes)

    def _take(self, name: str, known: _File, pods: Sequence[Manifest]) -> None:
        """Lets a file have these pods, and no others."""
        for uid in known.pods:
            del self._holders[uid]
        known.pods = {pod.uid: pod for pod in pods}
        self._holders.update(dict.fromkeys(known.pods, name))

    def _pods(
        self, name: str, data: bytes, asker: Asker | None
    ) -> tuple[list[Manifest], list[str], list[str]]:
        """The pods of a file; those whose name it has twice, and what else to say of it."""
        found = expanded(data, source=str(self.root / name)).required()
        workloads, twice = split_by_name(found.workloads)
        pods = [self._manifest(name, pod, asker) for workload in workloads for pod in workload.pods]
        uids: set[str] = set()
        for pod in pods:
            if pod.uid in uids:
                raise UnfitFileError(f"found metadata.uid {pod.uid} twice, expected each once")
            uids.add(pod.uid)
        return pods, [self._without_path(name, one.text) for one in twice], found.notes

    def _check_room(self, name: str, known: _File, pods: Sequence[Manifest]) -> None:
        """A uid belongs to one file, and all files together have a limit."""
        count = len(self._holders) - len(known.pods) + len(pods)
        if count > self.pods_max:
            raise UnfitFileError(
                f"found {count} pods in all manifests together, expected at most {self.pods_max}; "
                "it is taken up when others are gone"
            )
        for pod in pods:
            holder = self._holders.get(pod.uid, name)
            if holder != name:
                raise UnfitFileError(
                    f"found metadata.uid {pod.uid}, which is that of a pod in {holder}; expected "
                    "one of its own, or none"
                )

    def _without_path(self, name: str, text: str) -> str:
        return text.removeprefix(f"{self.root / name}: ")

    def _manifest(self, name: str, record: PodRecord, asker: Asker | None) -> Manifest:
        uid = record.metadata.uid or static_uid(record, self.host, name, asker)
        return Manifest(uid, record, f"{SOURCE}{name}", asker)


def static_uid(record: PodRecord, host: str, name: str, asker: Asker | None = None) -> str:
    """A uid made of content, host, file and owner, so that a changed file is another pod.

    The kubelet does so for static pods, over its own form of the content.
    """
    text = msgspec.json.encode(record) + os.fsencode(f"host:{host}file:{name}")
    if asker is not None:
        text += f"owner:{asker.uid}:{asker.gid}".encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def shown(name: str) -> str:
    """A file's name as text that can be printed, whatever its bytes are."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _changes(
    before: Mapping[str, Manifest],
    after: Mapping[str, Manifest],
    files: tuple[ManifestFile, ...],
    faults: Iterable[str],
    notes: Iterable[str],
    passed_over: int,
) -> Changes:
    """What came and went. A pod that was only moved to another file is new, but not gone."""
    changed = {
        uid
        for uid, pod in after.items()
        if uid in before and (before[uid].record, before[uid].asker) != (pod.record, pod.asker)
    }
    return Changes(
        tuple(pod for uid, pod in after.items() if before.get(uid) != pod),
        tuple(uid for uid in before if uid not in after or uid in changed),
        tuple(faults),
        tuple(notes),
        files,
        passed_over,
    )
