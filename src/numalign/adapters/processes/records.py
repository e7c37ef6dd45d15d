"""What is on the disk about each container's process, so that it can be found again.

One directory per run: ``<root>/<pod uid>/<container>.<attempt>/``. The files in it, in the order in
which they appear: ``lock`` (held by the supervisor for as long as it lives), ``record.json`` and
``spec`` (items ``key=value`` between NUL bytes, for the supervisor), then by the supervisor
``run.json`` and at last ``exit.json``. Whatever is missing tells how far it came.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from numalign.core.asker import Asker
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.mempolicy import Mempolicy
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.confinement import Confinement

LOG_BYTES_MAX: Final = 10 * 2**20  # the kubelet's containerLogMaxSize
LOG_FILES_MAX: Final = 5  # and containerLogMaxFiles
_SPEC_BYTES_MAX: Final = 8 * 2**20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host that a container sees somewhere else too."""

    source: str
    target: str
    read_only: bool = False
    follows_host: bool = False  # what is mounted below it later is seen as well
    kind: str = ""  # Directory, File and so on, where it must be one
    is_own: bool = False  # made by the agent, so not looked up with the rights of who asked

    @property
    def flags(self) -> str:
        found = {"ro": self.read_only, "slave": self.follows_host, "own": self.is_own}
        return ",".join(name for name, is_set in found.items() if is_set)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    pod_uid: str
    container: str
    attempt: int = 0
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    log_path: Path
    log_bytes_max: int = LOG_BYTES_MAX
    log_files_max: int = LOG_FILES_MAX
    cpus: CpuSet
    mems: NodeSet | None = None
    mempolicy: Mempolicy | None = None  # with its nodes; None: the kernel's default
    qos: Qos = Qos.GUARANTEED
    limits: Limits = field(default_factory=Limits)
    pod_limits: Limits | None = None
    confinement: Confinement = field(default_factory=Confinement)
    mounts: tuple[Mount, ...] = ()
    asker: Asker | None = None  # with whose rights paths of mounts are looked up; None: our own

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ConfigError(
                f"container {self.container}: found no command, expected one in command or args "
                "(images are not run here, so theirs is not known)"
            )
        texts = [*self.argv, *self.env, *self.env.values(), self.cwd, str(self.log_path)]
        texts += [text for mount in self.mounts for text in (mount.source, mount.target)]
        if any("\0" in text for text in texts):
            raise ConfigError(f"container {self.container}: found a NUL byte in its command or env")
        if any("=" in name or not name for name in self.env):
            raise ConfigError(f"container {self.container}: found an env name with '=' or without")
        if not self.cpus:
            raise ConfigError(f"container {self.container}: found no CPUs to run on")
        if not self.log_path.is_absolute() or not self.cwd.startswith("/"):
            raise ConfigError(f"container {self.container}: log and cwd must be absolute paths")


class Record(msgspec.Struct, frozen=True):
    """What must be known to look after a run again."""

    pod_uid: str
    container: str
    attempt: int
    qos: Qos
    mems: str
    # Of a process that somebody else started and that was put in its place: this boot of the
    # kernel. It has no supervisor and no lock; its number and start tell whether it lives.
    boot: str = ""

    @property
    def is_attached(self) -> bool:
        return bool(self.boot)


class Run(msgspec.Struct, frozen=True):
    """The content of run.json."""

    supervisor: int
    supervisor_start: int
    child: int
    child_start: int
    started_ns: int


class Exit(msgspec.Struct, frozen=True):
    """The content of exit.json."""

    code: int
    signal: int
    message: str
    finished_ns: int


@dataclass(frozen=True, slots=True)
class RunDirectory:
    path: Path

    @property
    def record(self) -> Record | None:
        """What we wrote before the start; None when we did not come that far."""
        return _decoded(self.path / "record.json", Record)

    @property
    def run(self) -> Run | None:
        return _decoded(self.path / "run.json", Run)

    @property
    def exit(self) -> Exit | None:
        return _decoded(self.path / "exit.json", Exit)

    @property
    def complaint(self) -> str:
        """What the supervisor itself said last, if anything."""
        try:
            lines = (self.path / "supervisor.err").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def create(self, spec: RunSpec, items: list[str]) -> int:
        """Writes the files for a new run; gives the lock, to be handed to the supervisor."""
        text = "\0".join(items)
        if len(text) > _SPEC_BYTES_MAX:
            raise ConfigError(f"container {spec.container}: command and env are over 8 MiB")
        record = Record(
            spec.pod_uid, spec.container, spec.attempt, spec.qos, str(spec.mems or NodeSet())
        )
        lock: int | None = None
        try:
            spec.log_path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, parents=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            _write(self.path / "record.json", msgspec.json.encode(record))
            _write(self.path / "spec", os.fsencode(text))
        except OSError as error:
            if lock is not None:
                os.close(lock)
            raise PeerError(
                f"{self.path}: the record of a run cannot be written: {error}. Nothing was started."
            ) from error
        return lock

    def create_attached(self, spec: RunSpec, run: Run, boot: str) -> Record:
        """Writes what must be known of a process that somebody else started."""
        mems = str(spec.mems or NodeSet())
        record = Record(spec.pod_uid, spec.container, spec.attempt, spec.qos, mems, boot)
        try:
            self.path.mkdir(mode=0o700, parents=True)
            _write(self.path / "record.json", msgspec.json.encode(record))
            _write(self.path / "run.json", msgspec.json.encode(run))
        except OSError as error:
            raise PeerError(
                f"{self.path}: the record of a run cannot be written: {error}. Nothing was moved."
            ) from error
        return record

    def save_exit(self, ended: Exit) -> None:
        """Writes how an attached process has ended; it is not lost if that fails, but unknown."""
        with suppress(OSError):
            _write(self.path / "exit.json", msgspec.json.encode(ended))

    def is_held(self) -> bool:
        """Whether a supervisor lives in it: only then the lock cannot be had."""
        try:
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def remove(self) -> None:
        """Removes the directory, and that of the pod if it was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        try:
            self.path.parent.rmdir()
        except OSError:  # others are in it, or it is gone
            return


def spec_items(
    spec: RunSpec, joins: list[Path], own: list[Path], *, by_affinity: bool
) -> list[str]:
    items = [f"argv={text}" for text in spec.argv]
    items += [f"env={name}={value}" for name, value in spec.env.items()]
    items += [f"join={path}" for path in joins] + [f"own={path}" for path in own]
    items += [
        f"cwd={spec.cwd}",
        f"log={spec.log_path}",
        f"log_bytes_max={spec.log_bytes_max}",
        f"log_files_max={spec.log_files_max}",
        *_confinement_items(spec),
    ]
    if spec.mempolicy is not None:
        items += [f"mempolicy={spec.mempolicy.mode}", f"policy_nodes={spec.mempolicy.nodes or ''}"]
    if not by_affinity:
        # The kernel remembers an affinity that was asked for and keeps to it inside any cpuset. One
        # that the agent was started with must not narrow its containers, so they ask for all.
        return [*items, "cpus=0-8191"]
    items.append(f"cpus={spec.cpus}")
    return [*items, f"mems={spec.mems}"] if spec.mems else items


def _confinement_items(spec: RunSpec) -> Iterator[str]:
    """What the child gives up and where it finds what; nothing for a plain process."""
    found = spec.confinement
    if found.user is not None:
        uid, gid, groups = found.user
        yield from (f"uid={uid}", f"gid={gid}", f"groups={','.join(map(str, groups))}")
    if found.bounding is not None:
        yield from (f"keep={found.bounding:x}", f"ambient={found.ambient:x}")
    if found.no_new_privileges:
        yield "no_new_privs=1"
    if found.host_name:
        yield f"host_name={found.host_name}"
    if found.read_only_root:
        yield "read_only_root=1"
    asker = spec.asker
    if spec.mounts and asker is not None and not asker.is_root:
        yield f"asker={','.join(map(str, (asker.uid, asker.gid, *asker.groups)))}"
    for mount in spec.mounts:
        yield from (f"mount_source={mount.source}", f"mount_target={mount.target}")
        yield from (f"mount_flags={mount.flags}", f"mount_kind={mount.kind}")


def run_directories(
    root: Path, faults: list[str] | None = None
) -> Iterator[tuple[RunDirectory, Record]]:
    """All runs on the disk, for each container the last attempt last.

    What cannot be read is passed over and told in ``faults``.
    """
    known, nameless = readable_runs(root, faults)
    for directory in nameless:
        if not directory.is_held():
            directory.remove()  # we died before there was anything to start
    yield from known


def readable_runs(
    root: Path, faults: list[str] | None = None
) -> tuple[list[tuple[RunDirectory, Record]], list[RunDirectory]]:
    """The runs with their records, the last attempts last, and the directories without one."""
    known, nameless = [], []
    for directory in [RunDirectory(path) for path in root.glob("*/*") if path.is_dir()]:
        try:
            record = directory.record
        except PeerError as error:
            record = None
            if faults is not None:
                faults.append(str(error))
        if record is None:
            nameless.append(directory)
        else:
            known.append((directory, record))
    return sorted(known, key=lambda pair: pair[1].attempt), nameless


def _write(path: Path, data: bytes) -> None:
    """Writes a file that is there completely or not at all; it need not outlive the kernel."""
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_bytes(data)
    new.replace(path)


def _decoded(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, *DECODE_FAULTS) as error:
        raise PeerError(
            f"{path}: cannot be read: {error}. Remove its directory when the processes of that "
            "container have ended."
        ) from error
