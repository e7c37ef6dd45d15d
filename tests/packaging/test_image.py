"""The container image: the same inputs give the same bytes, and it runs without anything else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tests.packaging.runtime_lock import RUNTIME
from tests.paths import CHECKOUT
from tests.real.kept import MissingError
from tests.real.own_image import own_image
from tools import sbom
from tools.image import pack, rootfs
from tools.image.debian import FetchError

from numalign import __version__

START_SECONDS_MAX = 0.5
SIZE_MAX = 250e6


def settings():
    return {
        "name": "test:1",
        "architecture": "amd64",
        "seconds": 7,
        "created": "2020-02-02T00:00:00Z",
        "steps": ["one"],
        "annotations": {},
        "config": {"User": "1:1"},
    }


@contextlib.contextmanager
def umask(value):
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def put_files(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "a" / "link").symlink_to("b")
    (folder / "tmp").mkdir()
    return folder


def test_order_time_and_umask_of_the_files_change_nothing(tmp_path):
    names = ("a/b", "a/c", "d")
    first = put_files(tmp_path / "first", names)
    with umask(0o077):
        second = put_files(tmp_path / "second", tuple(reversed(names)))
    os.utime(second / "d", (1, 1))
    digests = [
        pack.pack(settings(), tmp_path / f"{layer.name}.tar", [layer]) for layer in (first, second)
    ]
    assert digests[0] == digests[1]
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_another_content_is_another_digest(tmp_path):
    layer = put_files(tmp_path / "layer", ("a/b",))
    before = pack.pack(settings(), tmp_path / "one.tar", [layer])
    (layer / "a" / "b").write_text("x")
    assert pack.pack(settings(), tmp_path / "two.tar", [layer]) != before


def test_all_belongs_to_root_and_nothing_is_writable_but_tmp(tmp_path):
    layer = put_files(tmp_path / "layer", ("a/b",))
    (layer / "a" / "b").chmod(0o4777)
    pack.pack(settings(), tmp_path / "one.tar", [layer])
    found = {info.name: info for info in layer_of(tmp_path / "one.tar")}
    assert list(found) == sorted(found), "not as the file system lists them"
    assert {name: oct(info.mode) for name, info in found.items()} == {
        "a": "0o755",
        "a/b": "0o755",
        "a/link": "0o777",
        "tmp": "0o1777",
    }
    assert {(info.uid, info.gid, info.mtime) for info in found.values()} == {(0, 0, 7)}


def layer_of(archive: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(archive) as tar:
        [entry] = json.load(tar.extractfile("index.json"))["manifests"]
        manifest = json.load(tar.extractfile(blob(entry)))
        [layer] = manifest["layers"]
        with tarfile.open(fileobj=tar.extractfile(blob(layer)), mode="r:gz") as inner:
            return inner.getmembers()


def blob(descriptor: dict) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def test_packages_can_be_left_out_of_the_lock():
    text = rootfs.without(RUNTIME.read_text(), {"numpy", "resvg-py"})
    names = set(re.findall(r"(?m)^([a-z0-9-]+)==", RUNTIME.read_text()))
    assert set(re.findall(r"(?m)^([a-z0-9-]+)==", text)) == names - {"numpy", "resvg-py"}


def test_the_sbom_of_the_wheel_is_what_the_lock_file_says():
    listed = json.loads(sbom.OUT.read_text())
    made = json.loads(sbom.wheel_sbom())
    # Licences are those of the packages that are installed where it was made.
    for content in (listed, made):
        for one in content["components"]:
            one.pop("licenses", None)
    assert listed == made, "run python -m tools.sbom"
    assert listed["metadata"]["component"]["version"] == __version__


@pytest.mark.e2e
def test_a_package_that_is_not_what_it_was_is_refused(tmp_path):
    pin = "zlib1g=1:1.3.dfsg+really1.3.1-1+b1"
    with pytest.raises(FetchError, match=re.escape(pin.partition("=")[0])):
        rootfs.make(tmp_path / "layers", packages=[f"{pin} sha256:{'0' * 64}"])


def build(out: Path, *more: str) -> str:
    command = [sys.executable, "-m", "tools.image", "--output", str(out), *more]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if "no image was made" in done.stderr and "apt" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    return done.stdout.splitlines()[0].split()[1]


@pytest.mark.e2e
def test_two_builds_of_the_same_packages_are_the_same_bytes(tmp_path):
    first = build(tmp_path / "first")
    [packages] = (tmp_path / "first").glob("*.packages.lock")
    with umask(0o077):
        assert build(tmp_path / "second", "--packages", str(packages)) == first
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name
    [listed] = (tmp_path / "first").glob("*.cdx.json")
    content = json.loads(listed.read_text())
    assert content["metadata"]["component"]["purl"].startswith(f"pkg:oci/numalign@{first}")
    names = {one["name"] for one in content["components"]}
    assert {"libc6", "python3.13-minimal", "grpcio", "numpy", "lightkube"} <= names


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """The files of the image, unpacked, as root has them."""
    if os.geteuid() != 0:
        pytest.skip("files of an image are entered with chroot, as root")
    try:
        archive = own_image()
    except MissingError as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    with tarfile.open(archive) as tar:
        [entry] = json.load(tar.extractfile("index.json"))["manifests"]
        manifest = json.load(tar.extractfile(blob(entry)))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=tar.extractfile(blob(layer)), mode="r:gz") as inner:
                inner.extractall(folder, filter="fully_trusted")
    return folder


def inside(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the image as its user, on a read-only root without /proc."""
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, str(root)]
    command += [f"--userspec={rootfs.USER}:{rootfs.USER}", str(root), "/usr/local/bin/numalign"]
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, errors="replace", check=False
    )


@pytest.mark.e2e
def test_the_image_is_small_and_starts_at_once_on_a_read_only_root(root):
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    assert size < SIZE_MAX
    taken = []
    for _ in range(5):
        began = time.monotonic()
        done = inside(root, "--version")
        taken.append(time.monotonic() - began)
        assert done.stdout == f"numalign {__version__}\n", done.stderr
    assert min(taken) < START_SECONDS_MAX
    sys.stdout.write(f"{size / 1e6:.0f} MB, {min(taken):.3f} s\n")


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words",
    [
        ("topology", "--machine", "xeon-2s"),
        ("topology", "--machine", "xeon-2s", "-o", "png"),
        ("crd",),
        ("capacity", "--help"),
        ("scheduler", "--help"),
        ("nri", "--help"),
    ],
)
def test_commands_work_in_it(root, words):
    done = inside(root, *words)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.e2e
def test_it_has_no_shell_and_every_module_of_python_that_is_there_can_be_loaded(root):
    programs = {path.name for path in root.glob("usr/*bin/*")} | {
        path.name for path in root.glob("usr/local/bin/*")
    }
    assert programs == {rootfs.PYTHON, "numalign"}
    names = [path.name.partition(".")[0] for path in root.glob("usr/lib/python3*/lib-dynload/*.so")]
    assert "_ssl" in names
    script = f"import importlib; [importlib.import_module(n) for n in {names}]"
    command = ["chroot", str(root), f"/usr/bin/{rootfs.PYTHON}", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
