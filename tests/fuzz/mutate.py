"""Bytes changed at random: as a bad disk, a bad program or a bad person would change them."""

import json
import random

TOKENS = [
    *(b"\\ud800", b"\\udc00\\ud800", b"\xff", b"\xed\xa0\x80", b"\x00", b"\n", b"\t", b"\r"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"~", b"-", b"--- ", b"&a", b"*a", b"!!python/tuple"),
    *(b"0", b"-1", b"1e999", b"NaN", b"0x7fffffffffffffff", b"9" * 40, b"1" * 5_000, b"1e-999"),
    *(b"18446744073709551616", b"9223372036854775807", b"4294967296", b"0-4294967295", b"0-65535"),
    *(b"$(A)", b"$(", b"%s", b"../../etc", b"/", b"e", b"Ei", b"E400", b"1e400Ki", b"m", b"n"),
    *(b"[" * 2_000, b"{" * 2_000, b'{"a":' * 1_500, b"- " * 800, b"(" * 300, b"a" * 20_000),
    *(b"<!DOCTYPE x>", b"&lt;", b"<a>" * 500, b"\xef\xbb\xbf", "\u202e\u2028".encode(), b","),
]
ODD = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, 1e308, -0.0),
    *("", "x", "\ud800", "\x00", "a" * 5_000, "-1", "1e400", "9" * 50, "0-65535", "..", "/"),
    *([], {}, [[]], [None], [{}], {"": None}, {"a": {"b": []}}, [0] * 300, ["x"] * 300),
]


def mutated(rng: random.Random, seed: bytes, others: list[bytes]) -> bytes:
    """The seed with one to a few changes."""
    data = seed
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        change = rng.choice(_CHANGES)
        data = change(rng, data, others)
    return data


def _flip(rng, data, _others):
    if not data:
        return b"\x00"
    found = bytearray(data)
    found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def _cut(rng, data, _others):
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]


def _truncate(rng, data, _others):
    return data[: rng.randrange(len(data) + 1)]


def _repeat(rng, data, _others):
    start = rng.randrange(len(data) + 1)
    part = data[start : start + rng.choice((1, 4, 30, 300))]
    return data[:start] + part * rng.choice((2, 3, 50)) + data[start + len(part) :]


def _insert(rng, data, _others):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _overwrite(rng, data, _others):
    at, token = rng.randrange(len(data) + 1), rng.choice(TOKENS)
    return data[:at] + token + data[at + len(token) :]


def _noise(rng, data, _others):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 3, 20))) + data[at:]


def _splice(rng, data, others):
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(rng, data, _others):
    """Another number in the place of one."""
    places = [i for i, byte in enumerate(data[:50_000]) if 0x30 <= byte <= 0x39]
    if not places:
        return data
    at = rng.choice(places)
    return (
        data[:at] + rng.choice((b"0", b"-1", b"9999999999", b"1e9", b"4096", b"")) + data[at + 1 :]
    )


def _member(rng, data, _others):
    """Another value in the place of one, or none, where the bytes are JSON."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _insert(rng, data, _others)
    value = _changed(rng, value)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return data


def _changed(rng, value):
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value * 2
        return [*value[:at], _changed(rng, value[at]), *value[at + 1 :]]
    key = rng.choice(list(value))
    action = rng.random()
    if action < 0.1:
        return {k: v for k, v in value.items() if k != key}
    if action < 0.2:
        return {**value, rng.choice(("", "\ud800", "a" * 300, "0", key.upper())): value[key]}
    return {**value, key: _changed(rng, value[key])}


_CHANGES = [
    *(_flip, _cut, _truncate, _repeat, _insert, _overwrite, _noise, _splice, _number),
    *(_member, _member, _member, _member),
]
