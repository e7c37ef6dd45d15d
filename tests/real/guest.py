"""A real Linux kernel with several NUMA nodes: a QEMU guest whose files are those of this host.

    with Guest(TOPOLOGIES["four-nodes"]) as guest:
        guest.call("tests.real.guest_server:read", "/sys/devices/system/node/online")

The guest sees the root of this host read-only; what it writes goes to its own memory, except below
``guest.share``. One boot serves many calls: a Python process inside imports the named function and
runs it. Software emulation, no KVM. Kernel and busybox come from Debian packages and are kept in
the user's cache.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import json
import lzma
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.paths import CHECKOUT
from tests.real.kept import MissingError, cache, fetch_output, say
from tests.sockets import make_short_directory

SHARE: Final = "/run/share"  # inside
ALIVE: Final = "alive"  # written again and again while the guest goes on
BOOT_SECONDS_MAX: Final = 90.0  # ten are usual
BOOTS_MAX: Final = 3  # emulated kernels hang now and then
HUNG_LOOK_SECONDS: Final = 5.0
HUNG_SECONDS_MAX: Final = 60.0
HUNG_LOOKS_MAX: Final = 4  # a busy host alone may make it stand still for a while
_STALLED: Final = "detected stall"  # what the kernel says of a CPU that does not go on
_MODULES: Final = (
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_console",
    "virtio_net",
    "veth",  # pods with a network of their own
)
_ENGINE: Final = "qemu-system-x86_64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A machine: sockets, dies and cores, and the CPUs and memory of each NUMA node."""

    sockets: int
    dies: int
    cores: int
    threads: int
    nodes: tuple[tuple[str, int], ...]  # CPU list or "", MiB
    distances: tuple[tuple[int, ...], ...]
    hugepages: str  # of 2 MiB, as on the kernel's command line: 0:64,1:32

    @property
    def cpu_count(self) -> int:
        """All CPUs."""
        return self.sockets * self.dies * self.cores * self.threads


TOPOLOGIES: Final = {
    "two-sockets": Topology(
        sockets=2,
        dies=1,
        cores=4,
        threads=2,
        nodes=(("0-7", 768), ("8-15", 768)),
        distances=((10, 21), (21, 10)),
        hugepages="0:64,1:32",
    ),
    "four-nodes": Topology(
        sockets=2,
        dies=2,
        cores=2,
        threads=2,
        nodes=(("0-3", 640), ("4-7", 640), ("8-11", 640), ("12-15", 640)),
        distances=((10, 12, 20, 22), (12, 10, 22, 24), (20, 22, 10, 12), (22, 24, 12, 10)),
        hugepages="0:16,1:32,2:48,3:64",
    ),
    "memory-node": Topology(
        sockets=2,
        dies=1,
        cores=2,
        threads=2,
        nodes=(("0-3", 640), ("4-7", 640), ("", 768)),
        distances=((10, 20, 17), (20, 10, 28), (17, 28, 10)),
        hugepages="0:16,1:16,2:64",
    ),
}


class GuestError(Exception):
    """The guest did not come up, went away or did not answer; with the end of its console."""


class HungError(GuestError):
    """The emulated kernel stands still, as it does now and then; it was no fault of the test."""


class CallError(Exception):
    """A call inside raised; the text is the traceback from there."""


class Guest:
    """One QEMU process, with one Python process inside that answers calls."""

    def __init__(
        self, topology: Topology, *, has_network: bool = False, is_newer: bool = False
    ) -> None:
        """With a network, 10.0.2.2 inside is the loopback of this host; it leads nowhere else.

        ``is_newer``: not the distribution's usual kernel, but the newest that it offers.
        """
        self.topology = topology
        self.has_network = has_network
        self.kernel, self.initrd = kernel(is_newer=is_newer)
        self._scratch = make_short_directory("nguest-")
        self.share = self._scratch / "share"
        self.share.mkdir()
        self._qemu: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._rest = b""

    def __enter__(self) -> Guest:
        for name in ("src", "tests"):  # an emulated CPU compiles for minutes
            compileall.compile_dir(CHECKOUT / name, quiet=2)
        for attempt in range(1, BOOTS_MAX + 1):
            try:
                self._boot()
            except GuestError:
                self._end()
                if attempt == BOOTS_MAX:
                    self._remove()
                    raise
                say("the guest did not come up: once more")
            else:
                return self
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self._end()
        self._remove()

    def call(self, function: str, *arguments: Any, seconds: float = 60.0) -> Any:
        """What ``module:name`` answers inside; CallError if it raises there."""
        assert self._line is not None, "the guest runs"
        request = {"call": function, "arguments": arguments}
        self._line.settimeout(seconds)
        self._line.sendall(json.dumps(request).encode() + b"\n")
        answer = self._heard(seconds)
        if "raised" in answer:
            raise CallError(answer["raised"])
        return answer["value"]

    def console(self) -> str:
        """The end of what the kernel and QEMU said."""
        texts = []
        for name in ("console", "qemu"):
            with suppress(OSError):
                texts.append((self._scratch / name).read_text(errors="replace")[-2000:])
        return "\n".join(texts)

    def _boot(self) -> None:
        line = self._scratch / "line"
        with (self._scratch / "qemu").open("wb") as log:
            self._qemu = subprocess.Popen(
                self._command(line), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + BOOT_SECONDS_MAX
        while self._line is None:
            one = socket.socket(socket.AF_UNIX)
            try:
                one.connect(str(line))
                self._line = one
            except OSError:
                one.close()
                if self._qemu.poll() is not None or time.monotonic() > deadline:
                    raise GuestError(f"QEMU did not start: {self.console()}") from None
                time.sleep(0.05)
        self._heard(max(1.0, deadline - time.monotonic()))

    def _command(self, line: Path) -> list[str]:
        shape = self.topology
        words = [
            f"-smp {shape.cpu_count},sockets={shape.sockets},dies={shape.dies},"
            f"cores={shape.cores},threads={shape.threads}",
            f"-m {sum(size for _, size in shape.nodes)}M",
            "-nodefaults -no-user-config -display none -no-reboot -machine q35",
            "-accel tcg,thread=multi,tb-size=512 -cpu Skylake-Server",
            f"-serial file:{self._scratch}/console",
            f"-chardev socket,id=line,path={line},server=on,wait=off",
            "-device virtio-serial-pci -device virtserialport,chardev=line,name=line",
        ]
        if self.has_network:
            words.append("-netdev user,id=net -device virtio-net-pci,netdev=net,romfile=")
        for number, (cpus, size) in enumerate(shape.nodes):
            words += [
                f"-object memory-backend-ram,id=m{number},size={size}M",
                f"-numa node,nodeid={number},memdev=m{number}" + (f",cpus={cpus}" if cpus else ""),
            ]
        for source, row in enumerate(shape.distances):
            for target, value in enumerate(row):
                words.append(f"-numa dist,src={source},dst={target},val={value}")
        for tag, path, mode in (("host", "/", ",readonly=on"), ("share", self.share, "")):
            words += [
                f"-fsdev local,id={tag},path={path},security_model=none,multidevs=remap{mode}",
                f"-device virtio-9p-pci,fsdev={tag},mount_tag={tag}",
            ]
        append = (
            "console=ttyS0 panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable audit=0 "
            "nmi_watchdog=0 nosoftlockup cryptomgr.notests quiet "
            # What costs an emulated kernel dearly and changes nothing that is tested.
            "numa_balancing=disable psi=0 init_on_alloc=0 apparmor=0 hardened_usercopy=off "
            "randomize_kstack_offset=off "
            f"hugepagesz=2M hugepages={shape.hugepages} "
            f"numalign.python={sys.executable} numalign.checkout={CHECKOUT}"
        )
        split = [word for text in words for word in text.split()]
        files = ["-kernel", str(self.kernel), "-initrd", str(self.initrd)]
        return [_ENGINE, *split, *files, "-append", append]

    def _heard(self, seconds: float) -> dict[str, Any]:
        assert self._line is not None, "the guest runs"
        deadline = time.monotonic() + seconds
        stalls = self.console().count(_STALLED)
        looks = 0  # since it was seen to stand still
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            self._line.settimeout(max(0.01, min(left, HUNG_LOOK_SECONDS)))
            try:
                found = self._line.recv(1 << 16)
            except TimeoutError:
                looks += self.console().count(_STALLED) > stalls
                if looks > HUNG_LOOKS_MAX or self._quiet_seconds() > HUNG_SECONDS_MAX:
                    raise HungError(f"the emulated kernel hangs: {self.console()}") from None
                if left > HUNG_LOOK_SECONDS:
                    continue
                raise GuestError(f"no answer in {seconds:.0f} s: {self.console()}") from None
            if not found:
                raise GuestError(f"the guest went away: {self.console()}")
            self._rest += found
        text, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _quiet_seconds(self) -> float:
        """For how long nothing goes on inside; 0 before it is up."""
        try:
            return time.time() - (self.share / ALIVE).stat().st_mtime
        except OSError:
            return 0.0

    def _end(self) -> None:
        (self.share / ALIVE).unlink(missing_ok=True)  # of this boot, not of the next
        if self._line is not None:
            self._line.close()
            self._line, self._rest = None, b""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
            self._qemu = None

    def _remove(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


# The kernel and the little that is needed to reach the host's files.

_INIT: Final = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for name in {modules}; do insmod /modules/$name.ko; done
mount -t tmpfs upper /upper; mkdir /upper/files /upper/work
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work root /root
for name in proc sys dev; do mount --move /$name /root/$name; done
mkdir -p /root/dev/shm /root/dev/pts /root/dev/hugepages
ln -s /proc/self/fd /root/dev/fd; ln -s fd/0 /root/dev/stdin
ln -s fd/1 /root/dev/stdout; ln -s fd/2 /root/dev/stderr
mount -t tmpfs shm /root/dev/shm; mount -t devpts pts /root/dev/pts
mount -t hugetlbfs huge /root/dev/hugepages
mount -t tmpfs run /root/run
mount -t cgroup2 cgroup /root/sys/fs/cgroup
mkdir /root{share}
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /root{share}
ip link set lo up
if ip link set eth0 up 2>/dev/null; then
  ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
fi
for word in $(cat /root/proc/cmdline); do case $word in
  numalign.python=*) python=${{word#*=}};; numalign.checkout=*) checkout=${{word#*=}};;
esac; done
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PYTHONPATH=$checkout:$checkout/src PYTHONDONTWRITEBYTECODE=1
chroot /root $python -m tests.real.guest_server {share}/{alive}
reboot -f
"""


def kernel(*, is_newer: bool = False) -> tuple[Path, Path]:
    """The kernel and its first files; MissingError where QEMU or Debian's tools are missing."""
    for program, package in ((_ENGINE, "qemu-system-x86"), ("apt-get", "apt"), ("dpkg", "dpkg")):
        if shutil.which(program) is None:
            raise MissingError(f"{program} is not installed ({package}): no NUMA guest")
    place = cache() / ("guest-newer" if is_newer else "guest")
    place.mkdir(parents=True, exist_ok=True)
    made_of = f"{_INIT}{_MODULES}".encode()
    found = place / "vmlinux", place / f"initrd-{hashlib.sha256(made_of).hexdigest()[:12]}"
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found[0].exists() and found[1].exists()):
            say("fetching a kernel for the NUMA guest")
            with tempfile.TemporaryDirectory(dir=place) as scratch:
                package = _newest_package if is_newer else _usual_package
                _fetch(package(Path(scratch)), Path(scratch), *found)
    return found


def _usual_package(scratch: Path) -> str:
    depends = _called(["apt-cache", "depends", "linux-image-amd64"], scratch)
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise MissingError("apt knows no linux-image-amd64 (apt-get update): no NUMA guest")
    return package[1]


def _newest_package(scratch: Path) -> str:
    found = _called(
        ["apt-cache", "search", "--names-only", r"^linux-image-[0-9.+deb-]+-amd64$"], scratch
    )
    names = re.findall(r"^(linux-image-(\d+)\.(\d+)\.(\d+)\S*)", found, re.MULTILINE)
    if not names:
        raise MissingError("apt knows no linux-image (apt-get update): no NUMA guest")
    return max(names, key=lambda name: [int(part) for part in name[1:]])[0]


def _fetch(package: str, scratch: Path, vmlinux: Path, initrd: Path) -> None:
    options = ["-q", "-o", "APT::Sandbox::User=root"]
    _called(["apt-get", "download", *options, package, "busybox-static"], scratch)
    for deb in scratch.glob("*.deb"):
        _called(["dpkg", "-x", str(deb), "files"], scratch)
    for path in scratch.glob("files/lib/modules/**/*.ko.xz"):
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
    deepest = {p.stem.replace("-", "_"): p for p in scratch.glob("files/lib/modules/**/*.ko")}
    modules: dict[str, Path] = {}
    for name in _MODULES:
        _collect(name, deepest, modules)
    packed = next(scratch.glob("files/boot/vmlinuz-*")).read_bytes()
    # Booting the unpacked kernel saves the emulated CPU the unpacking, where we can unpack it.
    begin = packed.find(b"\xfd7zXZ\0")
    data = packed if begin < 0 else lzma.LZMADecompressor().decompress(packed[begin:])
    busybox = next(p for p in scratch.glob("files/**/busybox") if p.is_file() and _is_program(p))
    init = _INIT.format(modules=" ".join(modules), share=SHARE, alive=ALIVE)
    files = {f"modules/{name}.ko": path.read_bytes() for name, path in modules.items()}
    files |= {"bin/busybox": busybox.read_bytes(), "init": init.encode()}
    (scratch / "vmlinux").write_bytes(data)
    (scratch / "initrd").write_bytes(b"".join(_archive(files)))
    (scratch / "vmlinux").replace(vmlinux)
    (scratch / "initrd").replace(initrd)


def _is_program(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x7fELF"


def _collect(name: str, known: dict[str, Path], found: dict[str, Path]) -> None:
    """Adds a module after those that it needs; one that is not there is built in."""
    if name in found or name not in known:
        return
    needs = re.search(rb"\0depends=([^\0]*)\0", known[name].read_bytes())
    for other in needs[1].decode().split(",") if needs else ():
        _collect(other.replace("-", "_"), known, found)
    found[name] = known[name]


def _archive(files: dict[str, bytes]) -> Iterator[bytes]:
    """A cpio archive in the form that the kernel unpacks ("newc")."""
    folders = ["bin", "proc", "sys", "dev", "host", "upper", "root", "modules"]
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in folders]
    entries += [(name, stat.S_IFREG | 0o755, data) for name, data in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    for number, (name, mode, data) in enumerate(entries, start=1):
        title = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(title), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + title
        yield header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4)


def _called(command: list[str], folder: Path) -> str:
    return fetch_output("the NUMA guest", command, folder=folder, env={"LC_ALL": "C"})
