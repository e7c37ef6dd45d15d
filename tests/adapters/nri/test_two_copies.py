"""A save is one write of one copy, and the other one is there whatever becomes of it."""

import os
import stat

import pytest

from numalign.adapters.nri import two_copies
from numalign.adapters.nri.two_copies import COPY_BYTES_MIN, TwoCopies
from numalign.core.errors import PeerError


def write(file, text):
    file.write(lambda _: text)


@pytest.fixture
def file(tmp_path):
    found = TwoCopies(tmp_path / "f")
    yield found
    found.close()


def test_the_two_last_texts_are_read_back_with_tight_modes(file):
    assert file.read() == ()
    for _ in range(3):
        file.write(lambda number: b"text %d" % number)
    assert set(file.read()) == {b"text 2", b"text 3"}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.path.read_bytes().count(b"\n") == 2


def test_a_shorter_text_leaves_nothing_of_a_longer_one(file):
    for text in (b"a" * 5000, b"b" * 5000, b"a", b"b"):
        write(file, text)
    assert set(file.read()) == {b"a", b"b"}


def test_only_one_copy_is_touched_and_nothing_is_renamed(file):
    write(file, b"one")
    before = file.path.stat()
    other = file.path.read_bytes()[COPY_BYTES_MIN:]
    write(file, b"two")
    assert file.path.stat().st_ino == before.st_ino
    assert file.path.stat().st_size == before.st_size
    assert file.path.read_bytes()[COPY_BYTES_MIN:] == other


def test_a_text_that_is_too_long_for_its_place_gets_a_larger_file(file):
    write(file, b"one")
    write(file, b"x" * (3 * COPY_BYTES_MIN))
    assert file.read() == (b"x" * (3 * COPY_BYTES_MIN), b"")
    write(file, b"three")
    assert file.read() == (b"x" * (3 * COPY_BYTES_MIN), b"three")


@pytest.mark.parametrize("fate", ["removed", "replaced", "cut"])
def test_a_file_that_somebody_takes_away_is_made_anew(file, fate):
    write(file, b"one")
    if fate == "removed":
        file.path.unlink()
    elif fate == "replaced":
        file.path.with_name("other").write_text("other")
        file.path.with_name("other").rename(file.path)
    else:
        os.truncate(file.path, 100)
    write(file, b"two")
    assert b"two" in file.read()
    assert file.path.stat().st_size == 2 * COPY_BYTES_MIN


def test_what_the_disk_refuses_is_told_and_the_other_copy_stays(file, monkeypatch):
    write(file, b"one")
    write(file, b"two")

    def refuses(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(two_copies.os, "fdatasync", refuses)
        with pytest.raises(PeerError, match="cannot write it: Input/output error"):
            write(file, b"three")
    assert b"two" in file.read()
    write(file, b"again")
    assert set(file.read()) == {b"two", b"again"}


def test_a_directory_that_is_gone_or_a_link_in_its_place_is_told(tmp_path):
    with pytest.raises(PeerError, match="No such file or directory"):
        write(TwoCopies(tmp_path / "gone" / "f"), b"one")
    (tmp_path / "real").write_bytes(b"\n" * (2 * COPY_BYTES_MIN))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PeerError, match="symbolic links"):
        write(TwoCopies(tmp_path / "link"), b"one")


def test_a_text_that_no_start_would_read_is_refused(file, monkeypatch):
    monkeypatch.setattr(two_copies, "COPY_BYTES_MAX", 100)
    with pytest.raises(PeerError, match="Delete pods"):
        write(file, b"x" * 100)
