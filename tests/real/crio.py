"""A private CRI-O, built with Go from its published module: nothing of the host is changed.

Its helpers come from Debian (conmon, and skopeo for the images) or are built (pinns, runc). It
carries NRI 0.11: with a validator, without memory policies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.real import containerd
from tests.real.built_runtimes import build_runc
from tests.real.containerd import BUSYBOX, PAUSE, READY_SECONDS_MAX
from tests.real.go_program import build_published, source_of
from tests.real.kept import MissingError, cache, kept, output, say
from tests.real.packages import STABLE, unpacked_packages
from tests.sockets import make_short_directory

VERSION: Final = "1.36.3"
NAME: Final = "cri-o"  # among the suites of containerd
_MODULE: Final = "github.com/cri-o/cri-o"
# Neither the headers of these libraries nor their file systems are here.
_TAGS: Final = (
    "containers_image_openpgp,containers_image_ostree_stub,"
    "exclude_graphdriver_btrfs,btrfs_noversion"
)
_DEBIAN: Final = ("conmon", "skopeo", "libgpgme11", "libassuan0", "libdevmapper1.02.1")


def fetched() -> Path:
    """A directory with the programs in ``bin``, libraries in ``lib``, and two images."""
    return kept(cache() / f"crio-{VERSION}", _make)


def _make(scratch: Path, ready: Path) -> None:
    if shutil.which("gcc") is None:
        raise MissingError("gcc is not installed: CRI-O cannot be built")
    started = time.monotonic()
    say(f"building CRI-O {VERSION} (minutes the first time)")
    (ready / "bin").mkdir(parents=True)
    (ready / "lib").mkdir()
    build_published(
        scratch,
        ready / "bin" / "crio",
        module=_MODULE,
        version=VERSION,
        package=f"{_MODULE}/cmd/crio",
        tags=_TAGS,
        env={"CGO_ENABLED": "1"},  # its storage is prepared in C
    )
    sources = sorted((source_of(_MODULE, VERSION, scratch) / "pinns" / "src").glob("*.c"))
    command = ["gcc", "-std=gnu99", "-O2", "-o", ready / "bin" / "pinns", *sources]
    output(command, seconds_max=60)
    build_runc(scratch, ready / "bin" / "runc")
    wanted = (f"{name}/{STABLE}" for name in _DEBIAN)
    unpacked = unpacked_packages("CRI-O", scratch, STABLE, *wanted)
    for name in ("conmon", "skopeo"):
        shutil.copy2(unpacked / "usr" / "bin" / name, ready / "bin" / name)
    for path in unpacked.glob("**/*.so*"):
        shutil.copy2(path, ready / "lib" / path.name)
    containerd.make_images(scratch, ready)
    say(f"built CRI-O {VERSION} in {time.monotonic() - started:.0f} s")


_CONFIG: Final = """
[crio]
root = "{d}/root"
runroot = "{d}/state"
storage_driver = "overlay"
log_dir = "{d}/logs"
version_file = "{d}/version"
clean_shutdown_file = ""
internal_wipe = false
[crio.api]
listen = "{d}/crio.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
conmon = "{bin}/conmon"
conmon_cgroup = "pod"
cgroup_manager = "cgroupfs"
pinns_path = "{bin}/pinns"
default_runtime = "runc"
seccomp_profile = ""
apparmor_profile = "unconfined"
container_exits_dir = "{d}/exits"
container_attach_socket_dir = "{d}/attach"
namespaces_dir = "{d}/ns"
hooks_dir = []
cdi_spec_dirs = ["{d}/cdi"]
irqbalance_config_file = ""
irqbalance_config_restore_file = "disable"
disable_hostport_mapping = true
[crio.runtime.runtimes.runc]
runtime_path = "{bin}/runc"
runtime_root = "{d}/runc"
runtime_type = "oci"
[crio.image]
pause_image = "{pause}"
pause_command = "/bin/sleep 2147483647"
signature_policy = "{d}/policy.json"
signature_policy_dir = "{d}/policies"
[crio.network]
network_dir = "{d}/cni-conf"
plugin_dirs = ["{d}/cni-bin"]
[crio.nri]
enable_nri = true
nri_listen = "{d}/nri.sock"
nri_plugin_dir = "{d}/nri-plugins"
nri_plugin_config_dir = "{d}/nri-conf"
nri_plugin_registration_timeout = "30s"
"""
VALIDATOR: Final = """
[crio.nri.default_validator]
nri_enable_default_validator = true
nri_validator_tolerate_missing_plugins_annotation = "numalign.io/run-without-nri"
"""


class Crio:
    """A running CRI-O; ``socket`` serves CRI, ``nri`` NRI plugins."""

    version = VERSION

    def __init__(self, files: Path, more: str = "") -> None:
        """``more``: further configuration."""
        self.files = files
        self.directory = make_short_directory("no-")
        self.socket = self.directory / "crio.sock"
        self.nri = self.directory / "nri.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._env = {
            **os.environ,
            "PATH": f"{files}/bin:{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": str(files / "lib"),
            "CONTAINERS_STORAGE_CONF": str(self.directory / "storage.conf"),
        }
        for name in ("cni-conf", "cni-bin", "cdi", "nri-plugins", "nri-conf", "policies", "ns"):
            (self.directory / name).mkdir()
        text = _CONFIG.format(d=self.directory, bin=files / "bin", pause=PAUSE)
        (self.directory / "crio.conf").write_text(text + more)
        policy = {"default": [{"type": "insecureAcceptAnything"}]}
        (self.directory / "policy.json").write_text(json.dumps(policy))
        (self.directory / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\nrunroot = "{self.directory}/state"\n'
            f'graphroot = "{self.directory}/root"\n'
        )
        network = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
        (self.directory / "cni-conf" / "10-none.conflist").write_text(json.dumps(network))

    def load_images(self) -> None:
        """Puts the two images into its storage, which nobody else uses at this moment."""
        for name, image in (("busybox", BUSYBOX), ("pause", PAUSE)):
            command = [
                *(str(self.files / "bin" / "skopeo"), "--insecure-policy", "copy", "-q"),
                *(f"oci-archive:{self.files / name}.tar", f"containers-storage:{image}"),
            ]
            output(command, seconds_max=60, env=self._env)

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = [
            *(str(self.files / "bin" / "crio"), "--config", str(self.directory / "crio.conf")),
            *("--config-dir", ""),
        ]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._env, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (self.socket.exists() and self.nri.exists() and self._answers()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"CRI-O does not answer: {self.said()[-1500:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        command = [str(self.files / "bin" / "crio"), "status", "-s", str(self.socket), "info"]
        done = subprocess.run(command, capture_output=True, env=self._env, check=False, timeout=20)
        return done.returncode == 0

    def said(self) -> str:
        """Its log."""
        return (self.directory / "log").read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends CRI-O alone: containers go on."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(READY_SECONDS_MAX)
            self.process = None

    def stop(self) -> None:
        """Ends CRI-O and what outlived it, and removes mounts and files."""
        if self.process is not None and self.process.poll() is None:
            self.end()
        for pid in self._monitors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        containerd.unmount_below(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _monitors(self) -> list[int]:
        """Monitors that outlived it: they name our directory in their own arguments."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (process / "cmdline").read_bytes()
                if b"/conmon\0" in line and os.fsencode(self.directory) in line:
                    found.append(int(process.name))
        return found


@contextmanager
def crio(more: str = "") -> Iterator[Crio]:
    """A CRI-O for a test; skips where there can be none."""
    running = Crio(containerd.needed(fetched), more)
    try:
        running.load_images()
        running.start()
        yield running
    finally:
        running.stop()
