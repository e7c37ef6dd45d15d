"""JSON written and refused as Go's encoding/json does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.errors import WireError
from numalign.wire.go import json as gojson
from numalign.wire.go.json_syntax import DEPTH_MAX, fault_in


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ('x"y<é>', '"x\\"y\\u003cé\\u003e"'),
        ("a&b\\", '"a\\u0026b\\\\"'),
        ("tab\tnew\n\r\b\f", '"tab\\tnew\\n\\r\\b\\f"'),
        ("\x00\x1f\x7f", '"\\u0000\\u001f\x7f"'),
        ("line\u2028par\u2029", '"line\\u2028par\\u2029"'),
        ("\ud800x", '"\\ufffdx"'),
        ("\ufffd😀", '"\ufffd😀"'),
    ],
)
def test_a_text_is_written_with_gos_escapes(text: str, written: str) -> None:
    assert gojson.quote(text) == written


@given(st.text())
def test_a_written_text_reads_back_as_itself(text: str) -> None:
    written = gojson.quote(text)
    assert json.loads(written) == text
    assert not set(written) & set("<>&\u2028\u2029")
    assert gojson.parse(written.encode()) == text


def test_maps_are_sorted_by_the_bytes_of_their_keys() -> None:
    assert gojson.written_map({"b": "1", "a": "2", "é": "3", "Z": "4"}) == (
        '{"Z":4,"a":2,"b":1,"é":3}'
    )


def test_bad_bytes_become_one_stand_in_each() -> None:
    assert gojson.parse(b'"x\xff\xfe\xed\xa0\x80"') == "x" + "\ufffd" * 5
    assert gojson.parse(b'"\xe2\x82"') == "\ufffd" * 2


def test_numbers_keep_their_text_and_objects_their_order() -> None:
    parsed = gojson.parse(b'{"b":1e400,"a":-0,"b":1}')
    assert parsed == (("b", "1e400"), ("a", "-0"), ("b", "1"))


# What Go 1.26 with its newer JSON code says; the words of the recorded kubelets.
FAULTS = [
    (b"", "unexpected end of JSON input"),
    (b"  ", "unexpected end of JSON input"),
    (b"garbage", "invalid character 'g' looking for beginning of value"),
    (b'{"policyName":"static"', "unexpected end of JSON input"),
    (b"[1,]", "invalid character ']' looking for beginning of value"),
    (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    (b"{1:2}", "invalid character '1' looking for beginning of object key string"),
    (b'{"a" 1}', "invalid character '1' after object key"),
    (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
    (b"[1 2]", "invalid character '2' after array element"),
    (b"{} x", "invalid character 'x' after top-level value"),
    (b"01", "invalid character '1' after top-level value"),
    (b"1.x", "invalid character 'x' in numeric literal"),
    (b"[-]", "invalid character ']' in numeric literal"),
    (b"-", "unexpected end of JSON input"),
    (b"tRue", "invalid character 'R' in literal true (expecting 'r')"),
    (b"nul", "unexpected end of JSON input"),
    (b"NaN", "invalid character 'N' looking for beginning of value"),
    (b"Infinity", "invalid character 'I' looking for beginning of value"),
    (b"-Infinity", "invalid character 'I' in numeric literal"),
    (b"'", "invalid character '\\'' looking for beginning of value"),
    (b'"\x01"', "invalid character '\\x01' in string"),
    (b'"a\tb"', "invalid character '\\t' in string"),
    (b'"\\q"', "invalid escape sequence `\\q` in string"),
    (b'"\\u12G4"', "invalid escape sequence `\\u12G4` in string"),
    (b'"\\u12"}', 'invalid escape sequence `\\u12"}` in string'),
    (b'"\\u12', "unexpected end of JSON input"),
    (b'"\\ "', 'invalid escape sequence "\\\\ " in string'),
    (b'"\\\xff"', 'invalid escape sequence "\\\\\\xff" in string'),
    (b"\xff", "invalid character '\\xff' looking for beginning of value"),
    ("é".encode(), "invalid character 'é' looking for beginning of value"),
    ("\ufeff{}".encode(), "invalid character '\\ufeff' looking for beginning of value"),
]


@pytest.mark.parametrize(("data", "message"), FAULTS)
def test_a_text_that_is_no_json_is_refused_in_gos_words(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        gojson.parse(data)
    assert str(caught.value) == message


def test_nesting_ends_at_gos_limit() -> None:
    assert DEPTH_MAX == 10_000
    assert fault_in(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX) is None
    with pytest.raises(WireError, match="exceeded max depth"):
        gojson.parse(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))
    with pytest.raises(WireError, match="exceeded max depth"):
        gojson.parse(b'{"a":' * 100_000)


def test_a_huge_text_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(WireError, match="at most 67108864 are read"):
        gojson.parse(bytes(gojson.SIZE_BYTES_MAX + 1))


def check_parser_and_walk_agree(data: bytes) -> None:
    try:
        gojson.parse(data)
    except WireError as exc:
        assert str(exc)
        assert fault_in(data) == str(exc)
    else:
        assert fault_in(data) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_parsed_or_refused_with_a_reason(data: bytes) -> None:
    check_parser_and_walk_agree(data)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.integers(0, 200), st.integers(0, 7))
def test_the_walk_for_faults_agrees_with_the_parser(value: object, place: int, bit: int) -> None:
    data = bytearray(json.dumps(value, allow_nan=False).encode())
    assert fault_in(bytes(data)) is None
    data[place % len(data)] ^= 1 << bit
    check_parser_and_walk_agree(bytes(data))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\uDFFFa"', "\ufffda"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\ud800\u0041"', "\ufffdA"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'["\udc00\ud800"]', ["\ufffd\ufffd"]),
    ],
)
def test_half_a_surrogate_pair_is_read_as_go_reads_it(text, value):
    found = gojson.parse(text.encode())
    assert found == value
    assert str(found).encode()
