"""The files of the image, one folder per layer: Debian, the dependencies, numalign.

The Python of the image itself installs the dependencies and compiles them: it takes the wheels that
are right for it, and nothing of this host's Python gets in. No script of a package runs, and there
is no shell in the image.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.image import debian
from tools.image.debian import FetchError

CHECKOUT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = CHECKOUT / "packaging" / "requirements.lock"
SUITE: Final = "trixie"
PYTHON: Final = "python3.13"
USER: Final = 65532
LAYERS: Final = ("1-debian", "2-dependencies", "3-numalign")
PACKAGES: Final = "packages.lock"  # beside the layers: what the first one was made of
DOCUMENTS: Final = "packages.txt"  # what the packages say of themselves
# Each with its reason; the libraries are what Python's modules and the wheels are linked with.
WANTED: Final = (
    "base-files",  # the folders, and /etc/os-release, by which scanners know the system
    "ca-certificates",  # for API servers whose certificate a public authority signed
    "gcc-14-base",  # the licence of the two libraries of gcc
    "libbz2-1.0",
    "libc6",
    "libexpat1",  # hwloc's XML
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.13-minimal",
    "libpython3.13-stdlib",
    "libssl3t64",
    "libstdc++6",
    "libuuid1",
    "libzstd1",  # of libssl
    "python3.13-minimal",
    "zlib1g",
)
SITE: Final = f"usr/local/lib/{PYTHON}/dist-packages"
# What no program in the image reads. Licences stay (usr/share/doc/*/copyright).
_UNUSED: Final = (
    "etc/update-motd.d",
    "usr/sbin",
    "usr/share/lintian",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/binfmts",
    "usr/share/bug",
    "usr/lib/*/gconv",
    "usr/lib/*/audit",
    f"usr/lib/{PYTHON}/test",
    f"usr/lib/{PYTHON}/turtledemo",
    f"usr/lib/{PYTHON}/idlelib",
    f"usr/lib/{PYTHON}/tkinter",
    f"usr/lib/{PYTHON}/pydoc_data",
    f"usr/lib/{PYTHON}/ensurepip",
    f"usr/lib/{PYTHON}/_pyrepl",
    # Their libraries are not in the image.
    f"usr/lib/{PYTHON}/lib-dynload/readline.*",
    f"usr/lib/{PYTHON}/lib-dynload/_curses*",
    f"usr/lib/{PYTHON}/lib-dynload/_dbm.*",
    f"usr/lib/{PYTHON}/lib-dynload/_gdbm.*",
    f"usr/lib/{PYTHON}/lib-dynload/_sqlite3.*",
    f"usr/lib/{PYTHON}/lib-dynload/_ctypes_test.*",
    f"usr/lib/{PYTHON}/lib-dynload/_test*",
    f"usr/lib/{PYTHON}/lib-dynload/xx*",
)
_ACCOUNTS: Final = {
    "etc/passwd": (
        f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n"
    ),
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Isolated: no variable and no file of the working directory changes what is loaded.
_COMMAND: Final = f"""#!/usr/bin/{PYTHON} -IB
import sys

from numalign.cli.main import run

sys.exit(run())
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of the image, run where its files lie, with its own libraries."""

    root: Path

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """What it prints."""
        libraries = [str(path.parent) for path in self.root.glob("usr/lib/*/libc.so.6")]
        loader = next(iter(sorted(self.root.glob("usr/lib*/ld-linux-*.so.*"))), None)
        loader = loader or next(iter(sorted(self.root.glob("usr/lib/*/ld-linux-*.so.*"))))
        command = [str(loader), "--library-path", ":".join(libraries)]
        command += [str(self.root / "usr" / "bin" / PYTHON), "-B", *arguments]
        # The same names and sets in the same order each time.
        own = {"PYTHONHOME": str(self.root / "usr"), "PYTHONHASHSEED": "0", **(env or {})}
        return debian.called(command, env=own)


def make(out: Path, *, packages: Sequence[str], leave_out: Iterable[str] = ()) -> None:
    """Makes the folders of the layers below ``out``, which must not be there."""
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        base = _debian(Path(scratch), out / LAYERS[0], packages)
        (out / PACKAGES).write_text(base[0])
        (out / DOCUMENTS).write_text(base[1])
        python = Interpreter(out / LAYERS[0])
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(without(LOCK.read_text(), set(leave_out)))
        _install(python, out / LAYERS[1], ["--require-hashes", "-r", str(requirements)])
        wheel = _wheel(Path(scratch))
        _install(python, out / LAYERS[2], ["--no-index", str(wheel)])
        command = out / LAYERS[2] / "usr" / "local" / "bin" / "numalign"
        command.parent.mkdir(parents=True)
        command.write_text(_COMMAND)
        command.chmod(0o755)
        for layer in LAYERS:
            _compile(python, out / layer)


# Debian.


def pins(lock: str) -> dict[str, str]:
    """From what an earlier build wrote down: ``name=version`` with its hash."""
    lines = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
    return dict(lines)


def _debian(scratch: Path, layer: Path, packages: Sequence[str]) -> tuple[str, str]:
    wanted = pins("\n".join(packages))
    found = debian.download(scratch, debian.stable_sources(SUITE), list(wanted) or WANTED)
    lines, documents = [], []
    for package in found:
        text = debian.fields(package)
        name, version = (re.findall(rf"(?m)^{key}: (\S+)", text)[0] for key in _KEYS)
        digest = "sha256:" + hashlib.sha256(package.read_bytes()).hexdigest()
        if wanted and wanted[f"{name}={version}"] != digest:
            raise FetchError(
                f"{name} {version}: found {digest}, expected {wanted[f'{name}={version}']}"
            )
        lines.append(f"{name}={version} {digest}\n")
        documents.append(text)
    debian.unpack(found, layer)
    for pattern in _UNUSED:
        for path in layer.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in layer.glob("usr/bin/*"):
        if path.name != PYTHON:
            path.unlink()
    _remove_documents(layer)
    # As in images without a package manager: scanners look here.
    records = layer / "var" / "lib" / "dpkg" / "status.d"
    records.mkdir(parents=True)
    for line, text in zip(lines, documents, strict=True):
        (records / line.partition("=")[0]).write_text(text)
    certificates = sorted(layer.glob("usr/share/ca-certificates/mozilla/*.crt"))
    bundle = layer / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))
    shutil.rmtree(layer / "usr" / "share" / "ca-certificates")
    for name, text in _ACCOUNTS.items():
        (layer / name).write_text(text)
    return "".join(lines), "\n".join(documents)


_KEYS: Final = ("Package", "Version")


def _remove_documents(layer: Path) -> None:
    for path in sorted(layer.glob("usr/share/doc/**/*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright" and not path.is_symlink():
            path.unlink()


# Python.


def without(lock: str, names: set[str]) -> str:
    """A lock file without the entries of some packages."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", lock)
    return "".join(text for text in entries if text.partition("==")[0] not in names)


def _wheel(scratch: Path) -> Path:
    """Our own wheel, built by the Python that runs this, with what its environment has."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(scratch)]
    debian.called([*pip, *options, str(CHECKOUT)])
    return next(scratch.glob("numalign-*.whl"))


def _install(python: Interpreter, layer: Path, arguments: Sequence[str]) -> None:
    site = layer / SITE
    options = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    options += ["--only-binary=:all:", "--target", str(site), *arguments]
    import pip  # noqa: PLC0415 - of the environment that builds

    place = str(Path(pip.__file__).parents[1])
    python.run("-m", "pip", *options, env={"PYTHONPATH": place})
    # Commands of packages, which name the Python that installed them.
    shutil.rmtree(site / "bin", ignore_errors=True)
    for path in site.glob("*.dist-info/direct_url.json"):
        path.unlink()  # says where the wheel lay on this machine
    for path in list(site.glob("**/tests")):
        shutil.rmtree(path)
    for path in site.glob("*.dist-info/RECORD"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if _is_there(site, line)))


def _is_there(site: Path, line: str) -> bool:
    return (site / line.rsplit(",", 2)[0].strip('"')).exists()


def _compile(python: Interpreter, layer: Path) -> None:
    """Compiles once for all starts: the root file system of a container is read-only."""
    folders = [layer / "usr" / "lib" / PYTHON, layer / SITE]
    options = ["-m", "compileall", "-q", "-f", "--invalidation-mode=unchecked-hash"]
    options += ["-s", str(layer), "-p", "/"]
    python.run(*options, *(str(folder) for folder in folders if folder.is_dir()))
