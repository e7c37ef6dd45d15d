"""Frames of moments, and whatever else may stand in their place."""

import contextlib
import random
import zlib

import msgspec
import pytest

from numalign.core.errors import WireError
from numalign.wire.moments import (
    UNPACKED_BYTES_MAX,
    Change,
    Head,
    Held,
    Moment,
    Row,
    Why,
    frame,
    unframed,
)
from numalign.wire.pods.records import Metadata, PodRecord

POD = PodRecord(metadata=Metadata(name="a", namespace="shop", uid="u"))
VALUES = [
    Head(1, "1:abc", "worker-3"),
    Change(Moment(7, 1.5, "pod_admitted", "shop", "a", "u", has_trace=True)),
    Change(
        Moment(8, 2.5, "pod_rejected", why="because"),
        is_whole=True,
        pods={"u": Held(msgspec.Raw(b'["shop","a"]'), POD)},
        gone=["v"],
        accounts=msgspec.Raw(b"[]"),
        devices=msgspec.Raw(b"{}"),
        refused=POD,
        trace=[{"step": "merge"}],
    ),
    Why(8, "because"),
    Row(60.0, 1, 2, 3, 4, 5, 6, None, 7, 8),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_framed_is_unframed(value):
    found = unframed(frame(value))
    assert type(found) is type(value)
    assert msgspec.json.encode(found) == msgspec.json.encode(value)


def test_what_did_not_change_takes_no_room():
    assert b"accounts" not in zlib.decompress(frame(VALUES[1])[1:])
    assert bytes(unframed(frame(VALUES[1])).accounts) == b""
    assert len(frame(VALUES[1])) < 130


STRANGE = [
    *(b"", b"X", b"M", b"Mnonsense"),
    b"M" + zlib.compress(b"{}"),
    b"H" + zlib.compress(b'{"version": "x"}'),
    b"S" + zlib.compress(b"[1]"),
]


@pytest.mark.parametrize("data", STRANGE)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(WireError):
        unframed(data)


def test_a_frame_that_unpacks_beyond_all_bounds_is_refused():
    with pytest.raises(WireError, match="more than"):
        unframed(b"M" + zlib.compress(b" " * (UNPACKED_BYTES_MAX + 1), 1))


def test_random_bytes_are_refused_or_understood_but_never_an_error_of_ours():
    rng = random.Random(3)
    whole = [frame(value) for value in VALUES]
    for _ in range(2_000):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(WireError):
            unframed(bytes(data[: rng.randrange(len(data) + 1)]))
