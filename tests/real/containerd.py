"""A private containerd with CRI and NRI from Debian packages: nothing of the host is changed.

``fetched`` downloads programs and makes two images, once per suite, into the user's cache.
``Containerd`` runs them below a directory of its own and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.real.built_runtimes import build_containerd
from tests.real.images import busybox_image
from tests.real.kept import MissingError, cache, kept
from tests.real.packages import STABLE, program_of, unpacked_packages
from tests.sockets import make_short_directory

SUITES: Final = ("sid", "trixie")
BUSYBOX: Final = "localhost/busybox:1"
PAUSE: Final = "localhost/pause:1"
PROGRAMS: Final = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
READY_SECONDS_MAX: Final = 20.0
_BUSYBOX: Final = f"busybox-static/{STABLE}"
_CRUN_SUITE: Final = "trixie"  # the one before does not know what today's containerd says
_CRUN_NEEDS: Final = ("libc6", "libcap2", "libseccomp2", "libsystemd0", "libyajl2")
_WITH_OWN_LIBRARIES: Final = """#!/bin/sh
lib=${0%/*}/lib
exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$lib/crun" "$@"
"""


def asked_suites() -> list[str]:
    """The suites that tests take: those in the variable SUITE, by default the newest."""
    return os.environ.get("SUITE", SUITES[0]).split(",")


def needed(fetch: Callable[[], Path]) -> Path:
    """The fetched files; the calling test is skipped where they cannot be had or run."""
    if os.geteuid() != 0:
        pytest.skip("a private containerd needs root")
    try:
        return fetch()
    except MissingError as error:
        pytest.skip(str(error))


# Fetching.


def fetched(suite: str) -> Path:
    """A directory with the programs in ``bin`` and the images ``busybox.tar`` and ``pause.tar``.

    A suite of Debian, or a version of containerd, which is built.
    """
    make = _build if suite[0].isdigit() else _fetch
    return kept(cache() / f"containerd-{suite}", partial(make, suite))


def network_plugins() -> Path:
    """A directory with CNI plugins."""
    return kept(cache() / f"cni-{STABLE}", _fetch_network)


def crun() -> Path:
    """The program ``crun``, with the libraries of its own suite.

    It is written in C: an emulated CPU starts a container with it several times as fast.
    """
    return kept(cache() / f"crun-{_CRUN_SUITE}", _fetch_crun) / "crun"


def _fetch_network(scratch: Path, ready: Path) -> None:
    unpacked = unpacked_packages("CNI", scratch, STABLE, f"containernetworking-plugins/{STABLE}")
    shutil.copytree(unpacked / "usr" / "lib" / "cni", ready)


def _fetch_crun(scratch: Path, ready: Path) -> None:
    suite = _CRUN_SUITE
    wanted = [f"{name}/{suite}" for name in ("crun", *_CRUN_NEEDS)]
    unpacked = unpacked_packages("crun", scratch, suite, *wanted)
    (ready / "lib").mkdir(parents=True)
    for path in unpacked.glob("usr/lib/*/*.so*"):
        shutil.copy2(path, ready / "lib" / path.name)
    shutil.copy2(program_of(unpacked, "crun"), ready / "lib" / "crun")
    (ready / "crun").write_text(_WITH_OWN_LIBRARIES)
    (ready / "crun").chmod(0o755)


def _fetch(suite: str, scratch: Path, ready: Path) -> None:
    # runc of newer suites needs a newer C library than hosts of this suite have; this one does all.
    wanted = (f"containerd/{suite}", f"runc/{STABLE}", _BUSYBOX)
    unpacked = unpacked_packages("containerd", scratch, suite, *wanted)
    (ready / "bin").mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy2(program_of(unpacked, name), ready / "bin" / name)
    _make_images(unpacked, ready)


def _build(version: str, scratch: Path, ready: Path) -> None:
    build_containerd(version, scratch, ready / "bin")
    make_images(scratch, ready)


def make_images(scratch: Path, ready: Path) -> None:
    """The images ``busybox.tar`` and ``pause.tar``, and the program itself."""
    _make_images(unpacked_packages("busybox", scratch, STABLE, _BUSYBOX), ready)


def _make_images(unpacked: Path, ready: Path) -> None:
    busybox = program_of(unpacked, "busybox")
    shutil.copy2(busybox, ready / "bin" / "busybox")
    busybox_image(busybox, ready / "busybox.tar", BUSYBOX, ["/bin/sh"])
    busybox_image(busybox, ready / "pause.tar", PAUSE, ["/bin/sleep", "2147483647"])


# Running.

_COMMON: Final = """
root = '{d}/root'
state = '{d}/state'
disabled_plugins = [{off}]
[grpc]
  address = '{d}/containerd.sock'
[plugins.'io.containerd.internal.v1.opt']
  path = '{d}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  disable_connections = false
  socket_path = '{d}/nri.sock'
  plugin_path = '{d}/nri-plugins'
  plugin_config_path = '{d}/nri-conf'
  # A busy machine takes long to load a program.
  plugin_registration_timeout = '30s'
"""
_VERSION_3: Final = """
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_unprivileged_ports = false
  enable_unprivileged_icmp = false
  cdi_spec_dirs = ['{d}/cdi']
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{d}/cni-bin']
  conf_dir = '{d}/cni-conf'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = '{runtime}'
    Root = '{d}/runc'
    SystemdCgroup = false
"""
_VERSION_2: Final = """
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{pause}'
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ['{d}/cdi']
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '{d}/cni-bin'
    conf_dir = '{d}/cni-conf'
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
      BinaryName = '{runtime}'
      Root = '{d}/runc'
"""
# From NRI 0.10 on. Tests of the plugin turn it on where there is one.
VALIDATOR: Final = """
[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  tolerate_missing_plugins_annotation = 'numalign.io/run-without-nri'
"""
_OFF: Final = ("btrfs", "devmapper", "blockfile", "erofs", "zfs")


def config_text(directory: Path, runtime: Path, *, major: int) -> str:
    """The configuration of a containerd that keeps everything below a directory."""
    off = [f"'io.containerd.snapshotter.v1.{name}'" for name in _OFF]
    text = _COMMON + (_VERSION_3 if major >= 2 else _VERSION_2)
    version = "version = 3" if major >= 2 else "version = 2"
    return version + text.format(d=directory, runtime=runtime, off=", ".join(off), pause=PAUSE)


class Containerd:
    """A running containerd; ``socket`` serves CRI, ``nri`` NRI plugins."""

    def __init__(self, files: Path, more: str = "") -> None:
        """``more``: further configuration."""
        self.files = files
        self.directory = make_short_directory("nc-")
        self.socket = self.directory / "containerd.sock"
        self.nri = self.directory / "nri.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._env = {**os.environ, "PATH": f"{files}/bin:{os.environ.get('PATH', '')}"}
        done = subprocess.run(
            [files / "bin" / "containerd", "--version"], capture_output=True, text=True, check=True
        )
        self.version = re.findall(r"\d+\.\d+\.\d+", done.stdout)[0]
        major = int(self.version.split(".")[0])
        text = config_text(self.directory, files / "bin" / "runc", major=major)
        (self.directory / "config.toml").write_text(text + more)
        for name in ("cdi", "cni-bin", "cni-conf"):
            (self.directory / name).mkdir()

    def give_network(self, plugins: Path) -> None:
        """Lets pods have a network of their own, which ends on this host."""
        shutil.copytree(plugins, self.directory / "cni-bin", dirs_exist_ok=True)
        ranges = [[{"subnet": "10.254.77.0/24"}]]
        ipam = {"type": "host-local", "dataDir": str(self.directory / "ipam"), "ranges": ranges}
        text = {"cniVersion": "0.4.0", "name": "t", "plugins": [{"type": "ptp", "ipam": ipam}]}
        (self.directory / "cni-conf" / "10-test.conflist").write_text(json.dumps(text))

    def start(self) -> None:
        """Starts it and waits until it answers; images are there after the first time."""
        command = [self.files / "bin" / "containerd", "-c", self.directory / "config.toml"]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._env, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while self.ctr("version").returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"containerd does not answer: {self.said()[-1000:]}")
            time.sleep(0.05)
        for name in ("busybox", "pause"):
            done = self.ctr("images", "import", str(self.files / f"{name}.tar"))
            assert done.returncode == 0, done.stderr

    def ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Its own command line, in the namespace of CRI."""
        command = [str(self.files / "bin" / "ctr"), "-a", str(self.socket), "-n", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def said(self) -> str:
        """Its log."""
        return (self.directory / "log").read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends containerd alone: containers go on."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(READY_SECONDS_MAX)
            self.process = None

    def stop(self) -> None:
        """Ends containers, containerd and shims, and removes mounts and files."""
        if self.process is not None and self.process.poll() is None:
            for task in self.ctr("tasks", "ls", "-q").stdout.split():
                self.ctr("tasks", "rm", "-f", task)
            for container in self.ctr("containers", "ls", "-q").stdout.split():
                self.ctr("containers", "rm", container)
            self.end()
        for pid in self._shims():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        unmount_below(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _shims(self) -> list[int]:
        """Shims that outlived containerd: they name our socket in their own arguments."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"containerd-shim" in words[0] and os.fsencode(self.socket) in words:
                    found.append(int(process.name))
        return found


def unmount_below(directory: Path) -> None:
    """Takes away what a runtime left mounted."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)


@contextmanager
def containerd(suite: str, *, network: bool = False, more: str = "") -> Iterator[Containerd]:
    """A containerd for a test, with a network for pods if wanted; skips where there can be none."""
    running = Containerd(needed(partial(fetched, suite)), more)
    try:
        if network:
            running.give_network(needed(network_plugins))
        running.start()
        yield running
    finally:
        running.stop()


def remove_cgroups(parent: str) -> None:
    """Removes what a runtime left below one of our parents, in every hierarchy."""
    for mount in [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]:
        top = mount / parent
        if top.is_dir():
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
