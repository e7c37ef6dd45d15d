"""A tree of files reads the same from a directory, a mapping and an archive, and never leaks."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from tests.adapters.sources.captures import PACKERS, tar_bytes, write_tree

from numalign.adapters.local import packed
from numalign.adapters.sources import filetree, tartree
from numalign.adapters.sources.filetree import DirTree, FileTree, MappingTree
from numalign.adapters.sources.tartree import is_tar, tar_tree
from numalign.core.errors import DiscoveryError

FILES = {
    "sys/devices/system/cpu/online": "0-1\n",
    "sys/devices/system/cpu/cpu0/topology/core_id": "0\n",
    "sys/devices/pci0000:00/0000:00:02.0/class": "0x020000\n",
    "proc/meminfo": "MemTotal: 5 kB\n",
    "empty": "",
}
LINKS = {
    "sys/bus/pci/devices/0000:00:02.0": "../../../devices/pci0000:00/0000:00:02.0",
    "sys/devices/system/cpu/cpu0/again": "../cpu0",
    "sys/one": "two",
    "sys/two": "one",
    "sys/dangling": "nowhere",
    "sys/linked_file": "../proc/meminfo",
}


def _directory(tmp_path: Path) -> FileTree:
    write_tree(tmp_path, FILES)
    for path, target in LINKS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).symlink_to(target)
    return DirTree(tmp_path)


TREES = {
    "directory": _directory,
    "mapping": lambda _: MappingTree({f"/{k}": v for k, v in FILES.items()}, links=LINKS),
    "archive": lambda _: tar_tree(tar_bytes(FILES, links=LINKS), "a.tar"),
    "archive one folder down": lambda _: tar_tree(
        tar_bytes(FILES, links=LINKS, prefix="host-1/", packer=".xz"), "a.tar.xz"
    ),
    "archive of dotted names": lambda _: tar_tree(
        tar_bytes(FILES, links=LINKS, prefix="./"), "a.tar"
    ),
}


@pytest.fixture(params=TREES.values(), ids=TREES)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> FileTree:
    return request.param(tmp_path)


def test_files_are_read_and_missing_ones_are_none(tree: FileTree) -> None:
    assert tree.read("proc/meminfo") == "MemTotal: 5 kB\n"
    assert tree.read("empty") == ""
    assert tree.read("proc/nothing") is None
    assert tree.read("no/such/place") is None
    assert tree.read("proc") is None


def test_names_are_sorted_and_missing_directories_are_empty(tree: FileTree) -> None:
    assert tree.names("sys/devices/system/cpu") == ["cpu0", "online"]
    assert tree.names("sys/devices/nothing") == []
    assert tree.names("proc/meminfo") == []


def test_links_are_followed_inside_the_tree(tree: FileTree) -> None:
    assert tree.read("sys/bus/pci/devices/0000:00:02.0/class") == "0x020000\n"
    assert tree.names("sys/bus/pci/devices/0000:00:02.0") == ["class"]
    assert tree.read("sys/linked_file") == "MemTotal: 5 kB\n"
    again = "sys/devices/system/cpu/cpu0/again/again/topology/core_id"
    assert tree.read(again) == "0\n"


def test_links_that_lead_nowhere_or_in_a_circle_are_missing(tree: FileTree) -> None:
    for name in ("sys/dangling", "sys/one"):
        assert tree.read(name) is None
        assert tree.names(name) == []
        assert tree.exists(name)
    assert not tree.exists("sys/three")


def test_a_directory_never_leads_out_of_its_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("42")
    root = tmp_path / "root"
    root.mkdir()
    (root / "climbing").symlink_to("../secret")
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "out").symlink_to("..")
    tree = DirTree(root)
    for path in ("climbing", "absolute", "out/secret"):
        with pytest.raises(DiscoveryError, match="leads out of the tree"):
            tree.read(path)


def test_a_named_pipe_does_not_hold_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not DirTree(tmp_path).read("pipe")


def test_a_file_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filetree, "FILE_BYTES_MAX", 100)
    (tmp_path / "large").write_text("x" * 200_000)
    with pytest.raises(DiscoveryError, match="more than 100 bytes"):
        DirTree(tmp_path).read("large")


@pytest.mark.parametrize("packer", PACKERS)
def test_archives_may_be_packed_in_any_way(packer: str) -> None:
    data = tar_bytes(FILES, packer=packer)
    assert tar_tree(data, "a").read("sys/devices/system/cpu/online") == "0-1\n"


def test_hard_links_read_as_their_target() -> None:
    data = tar_bytes(FILES, hard_links={"sys/same": "proc/meminfo", "sys/none": "proc/none"})
    tree = tar_tree(data, "a")
    assert tree.read("sys/same") == "MemTotal: 5 kB\n"
    assert tree.read("sys/none") is None


CLIMBERS = {
    "climbing member": {"files": {"../evil": "x"}},
    "climbing in the middle": {"files": {"sys/../../evil": "x"}},
    "absolute member": {"files": {"/etc/evil": "x"}},
    "climbing link": {"links": {"sys/link": "../../etc/passwd"}},
    "absolute link": {"links": {"sys/link": "/etc/passwd"}},
    "climbing hard link": {"hard_links": {"sys/link": "../etc/passwd"}},
}


@pytest.mark.parametrize("extra", CLIMBERS.values(), ids=CLIMBERS)
def test_archives_that_climb_out_are_refused(extra: dict[str, dict[str, str]]) -> None:
    data = tar_bytes(
        FILES | extra.get("files", {}),
        links=extra.get("links"),
        hard_links=extra.get("hard_links"),
    )
    with pytest.raises(DiscoveryError, match=r"^evil\.tar: found .* out of"):
        tar_tree(data, "evil.tar")


def test_a_link_from_the_inner_folder_to_the_archive_leads_out() -> None:
    tree = tar_tree(tar_bytes(FILES, links={"sys/link": "../../other"}, prefix="n/"), "a.tar")
    with pytest.raises(DiscoveryError, match="leads out"):
        tree.read("sys/link")


@pytest.mark.parametrize("packer", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1])
def test_a_truncated_archive_is_one_clear_error(packer: str, kept: float) -> None:
    data = tar_bytes(FILES, packer=packer)
    with pytest.raises(DiscoveryError, match=r"damaged"):
        tar_tree(data[: int(len(data) * kept)], "cut.tar")


def test_a_plain_archive_cut_in_a_member_is_one_clear_error() -> None:
    data = tar_bytes({"sys/devices/system/cpu/online": "x" * 2000})
    with pytest.raises(DiscoveryError, match="damaged tar archive"):
        tar_tree(data[:1000], "cut.tar")


def test_a_packed_bomb_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed, "UNPACKED_BYTES_MAX", 8 << 20)
    for packer in (".gz", ".bz2", ".xz"):
        bomb = PACKERS[packer](bytes(32 << 20))
        with pytest.raises(DiscoveryError, match="more than 8388608 bytes"):
            packed.unpacked(bomb, "bomb")


def test_packed_parts_one_after_the_other_are_one_content() -> None:
    for packer in (".gz", ".bz2", ".xz"):
        pack = PACKERS[packer]
        assert packed.unpacked(pack(b"one ") + pack(b"two"), "parts") == b"one two"


def test_an_archive_of_too_many_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tartree, "MEMBERS_MAX", 3)
    with pytest.raises(DiscoveryError, match="more than 3 members"):
        tar_tree(tar_bytes(FILES), "many.tar")


def test_a_member_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tartree, "FILE_BYTES_MAX", 3)
    with pytest.raises(DiscoveryError, match="bytes in sys/devices"):
        tar_tree(tar_bytes(FILES), "large.tar")


def test_an_archive_of_no_machine_or_of_two_is_refused() -> None:
    with pytest.raises(DiscoveryError, match="none of its files"):
        tar_tree(tar_bytes({"etc/passwd": "x"}), "other.tar")
    two = {f"{name}/{path}": text for name in "ab" for path, text in FILES.items()}
    with pytest.raises(DiscoveryError, match="2 machines"):
        tar_tree(tar_bytes(two), "two.tar")


def test_archives_of_all_ages_are_recognised() -> None:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
            archive.addfile(tarfile.TarInfo("a"))
        assert is_tar(buffer.getvalue())
    header = bytearray(buffer.getvalue()[:512])
    header[257:265] = bytes(8)  # as before ustar
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    assert is_tar(bytes(header))
    assert not is_tar(b"apiVersion: numalign.io/v1\n" * 40)
    assert not is_tar(b"")


def test_a_missing_file_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="unreadable file"):
        packed.read_file(tmp_path / "nothing", "nothing")


def test_a_file_too_large_to_be_a_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "PACKED_BYTES_MAX", 10)
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(DiscoveryError, match="more than 10 bytes"):
        packed.read_file(tmp_path / "large", "large")


def test_names_that_would_fill_the_memory_are_refused() -> None:
    for name, words in (("a/" * 60 + "b", "61 folders|50 folders"), ("n" * 2_000, "characters")):
        with pytest.raises(DiscoveryError, match=words):
            tar_tree(tar_bytes({**FILES, name: ""}), "names.tar")


def test_too_many_folders_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tartree, "FOLDERS_MAX", 100)
    many = {f"{number}/a/b/c": "" for number in range(40)}
    with pytest.raises(DiscoveryError, match="more than 100 folders"):
        tar_tree(tar_bytes({**FILES, **many}), "folders.tar")


def test_headers_that_announce_headers_are_one_clear_error() -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1
    chained = (info.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * 5_000
    with pytest.raises(DiscoveryError, match="damaged tar archive"):
        tar_tree(chained, "chained.tar")


def test_parts_without_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "STREAMS_MAX", 10)
    for packer in (".gz", ".bz2", ".xz"):
        assert packed.unpacked(PACKERS[packer](b"ab") * 10, "parts") == b"ab" * 10
        with pytest.raises(DiscoveryError, match="more than 10 parts"):
            packed.unpacked(PACKERS[packer](b"") * 11, "parts")
