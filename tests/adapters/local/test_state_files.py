"""State files are whole or not there, and a refusal of the disk is told."""

import contextlib
import resource
import stat
from pathlib import Path

import pytest

from numalign.adapters.local.files import read_bounded, read_current, replace_file
from numalign.adapters.local.state_files import FILE_BYTES_MAX, StateDirectory
from numalign.core.errors import PeerError


def directory(tmp_path):
    found = StateDirectory(tmp_path / "state")
    found.prepare()
    return found


def test_what_is_written_is_read_back_with_tight_modes(tmp_path):
    files = directory(tmp_path)
    assert files.read("a") is None
    assert files.write("a", b"one")
    assert files.read("a") == b"one"
    assert stat.S_IMODE((files.root / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE(files.root.stat().st_mode) == 0o700


def test_the_same_content_is_not_written_twice(tmp_path):
    files = directory(tmp_path)
    files.write("a", b"one")
    before = (files.root / "a").stat().st_ino
    assert not files.write("a", b"one")
    assert (files.root / "a").stat().st_ino == before
    assert files.write("a", b"two")


def test_a_temporary_file_of_a_crash_is_removed_and_never_read(tmp_path):
    files = directory(tmp_path)
    (files.root / ".a.tmp").write_bytes(b"half")
    again = StateDirectory(files.root)
    again.prepare()
    assert again.read("a") is None
    assert not (files.root / ".a.tmp").exists()


def test_an_old_file_stays_when_the_new_one_cannot_be_written(tmp_path):
    files = directory(tmp_path)
    files.write("a", b"old")
    (files.root / ".a.tmp").mkdir()  # stands in the way of the temporary file
    with pytest.raises(PeerError, match="cannot write it"):
        files.write("a", b"new")
    assert (files.root / "a").read_bytes() == b"old"
    (files.root / ".a.tmp").rmdir()
    assert files.write("a", b"new")


@contextlib.contextmanager
def file_sizes_limited_to(size):
    """Whoever writes more into a file is refused, as by a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_told_and_nothing_half_is_left(tmp_path):
    files = directory(tmp_path)
    files.write("a", b"old")
    with (
        file_sizes_limited_to(4),
        pytest.raises(PeerError, match="cannot write it: File too large"),
    ):
        files.write("a", b"x" * 10)
    assert [path.name for path in files.root.iterdir()] == ["a"]
    assert (files.root / "a").read_bytes() == b"old"


def test_a_huge_file_is_refused(tmp_path):
    files = directory(tmp_path)
    with (files.root / "a").open("wb") as stream:
        stream.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(PeerError, match="found more than"):
        files.read("a")


def test_no_file_is_written_that_a_start_would_refuse_to_read(tmp_path):
    files = directory(tmp_path)
    files.write("a", b"old")
    files.write("b", bytes(FILE_BYTES_MAX))
    assert len(directory(tmp_path).read("b")) == FILE_BYTES_MAX
    with pytest.raises(PeerError, match="Delete pods"):
        files.write("a", bytes(FILE_BYTES_MAX + 1))
    assert directory(tmp_path).read("a") == b"old"


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PeerError, match="cannot make the state directory"):
        StateDirectory(tmp_path / "file" / "state").prepare()


def test_a_file_that_was_replaced_after_it_was_mounted_is_not_taken_for_the_new_one(tmp_path):
    # A bind mount of a file keeps the old one, as does a path through an open descriptor.
    path = tmp_path / "cpu_manager_state"
    path.write_bytes(b"old")
    with path.open("rb") as opened:
        mounted = Path(f"/proc/self/fd/{opened.fileno()}")
        assert read_current(mounted, 10) == b"old"
        replace_file(path, b"new")
        with pytest.raises(OSError, match="replaced after it was mounted"):
            read_current(mounted, 10)
        # What a shell gives as standard input may have no name either, and is no mistake.
        assert read_bounded(mounted, 10) == b"old"
    assert read_current(path, 10) == b"new"
