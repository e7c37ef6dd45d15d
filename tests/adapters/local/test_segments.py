"""Segments on a real disk: what was added is read again, whatever happened to the files since."""

import resource
from contextlib import contextmanager

import pytest

from numalign.adapters.local.segments import Segments
from numalign.core.errors import PeerError


def segments(tmp_path, **more):
    limits = {"bytes_max": 100, "segments_max": 3, **more}
    return Segments(tmp_path / "history", "moments", **limits)


def added(log, *frames):
    if log.is_full:
        log.begin()
    return log.append(frames)


def everything(log):
    return [one for number in log.numbers() for one in log.read(number)[0]]


def test_what_was_added_is_read_in_order(tmp_path):
    log = segments(tmp_path)
    added(log, b"one", b"", b"three")
    added(log, b"four")
    assert everything(log) == [b"one", b"", b"three", b"four"]
    path = next((tmp_path / "history").iterdir())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_oldest_segment_goes_and_the_size_is_bounded(tmp_path):
    log = segments(tmp_path)
    for number in range(40):
        added(log, b"%02d" % number * 20)
    assert len(log.numbers()) == 3
    assert sum(path.stat().st_size for path in (tmp_path / "history").iterdir()) <= 3 * (100 + 48)
    assert everything(log)[-1] == b"39" * 20


def test_another_run_adds_to_a_segment_of_its_own(tmp_path):
    first = segments(tmp_path)
    added(first, b"one")
    second = segments(tmp_path)
    assert added(second, b"two") == first.numbers()[0] + 1
    assert everything(second) == [b"one", b"two"]


@pytest.mark.parametrize("at", range(27))
def test_a_flipped_bit_ends_the_reading_of_its_segment_only(tmp_path, at):
    log = segments(tmp_path)
    added(log, b"first", b"second")
    path = next((tmp_path / "history").iterdir())
    assert path.stat().st_size == 27
    log.begin()
    added(log, b"third")
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    frames, is_sound = log.read(1)
    assert not is_sound
    assert frames == [b"first"][: at // 13]
    assert log.read(2) == ([b"third"], True)


def test_a_segment_that_was_cut_off_is_read_to_there(tmp_path):
    log = segments(tmp_path)
    added(log, b"first", b"second")
    path = next((tmp_path / "history").iterdir())
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        frames, is_sound = log.read(1)
        assert frames == [b"first"][: length // 13]
        assert is_sound == (length in {0, 13})


@contextmanager
def files_no_larger_than(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_leaves_the_segment_whole(tmp_path):
    """The system takes a part of the bytes and then refuses: none of them stays."""
    log = segments(tmp_path)
    added(log, b"first")
    with files_no_larger_than(20), pytest.raises(PeerError, match="cannot be written"):
        log.append([b"second" * 5])
    assert log.read(1) == ([b"first"], True)
    log.append([b"third"])
    assert everything(log) == [b"first", b"third"]


def test_a_segment_that_is_gone_or_a_stranger_is_passed_over(tmp_path):
    log = segments(tmp_path)
    assert log.numbers() == []
    assert log.read(7) == ([], False)
    added(log, b"first")
    (tmp_path / "history" / "moments-notes.log").write_text("mine")
    (tmp_path / "history" / "others-0000000001.log").write_text("other")
    assert log.numbers() == [1]


def test_a_length_beyond_all_bounds_is_not_believed(tmp_path):
    log = segments(tmp_path)
    added(log, b"first")
    path = next((tmp_path / "history").iterdir())
    path.write_bytes(path.read_bytes() + b"\xff\xff\xff\xff" + bytes(20))
    assert log.read(1) == ([b"first"], False)
