"""The checksum must be FNV-1a exactly, however fast it is computed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.wire.go import dump


def plain_fnv1a(data: bytes) -> int:
    """The hash as its definition says it."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) % 2**32
    return value


# From the hash's own test suite (Noll): text and hash.
KNOWN = [
    (b"", 0x811C9DC5),
    (b"a", 0xE40C292C),
    (b"foobar", 0xBF9CF968),
    (b"\xff\x00\x00\x01", 0xC48FB86D),
]


@pytest.mark.parametrize(("data", "value"), KNOWN)
def test_known_texts_have_their_known_hash(data: bytes, value: int) -> None:
    assert dump.fnv1a_32(data) == value


@settings(max_examples=60)
@given(st.binary(max_size=64), st.integers(0, 5000))
def test_the_fast_way_equals_the_definition_at_every_length(seed: bytes, length: int) -> None:
    data = (seed * (length // max(len(seed), 1) + 1))[:length]
    assert dump.fnv1a_32(data) == plain_fnv1a(data)


@pytest.mark.parametrize("length", [511, 512, 513, 767, 768, 1024, 4096, 20_000])
def test_the_fast_way_equals_the_definition_where_the_ways_meet(length: int) -> None:
    data = bytes(index * 37 % 256 for index in range(length))
    assert dump.fnv1a_32(data) == plain_fnv1a(data)


def test_lists_and_maps_are_dumped_as_go_prints_them() -> None:
    assert dump.listing(["a", "b"]) == "[a b]"
    assert dump.listing([]) == "[]"
    assert dump.listing(None) == "<nil>"
    assert dump.mapping({"b": 2, "a": 1}) == "map[a:1 b:2]"
    assert dump.mapping({}) == "map[]"
    assert dump.mapping(None) == "<nil>"


def test_a_text_is_hashed_as_utf_8() -> None:
    assert dump.checksum("é") == plain_fnv1a("é".encode())
