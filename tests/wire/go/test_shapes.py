"""Reading JSON into declared shapes, with Go's rules and Go's words."""

from __future__ import annotations

import msgspec
import pytest

from numalign.core.errors import WireError
from numalign.wire.go.scalars import INT, UINT64, Bytes, Text
from numalign.wire.go.shapes import Items, Keyed, Numbered, Pointer, Struct, attempt, read


class Inner(msgspec.Struct):
    nodes: list[int] | None = None
    size: int = 0
    raw: bytes | None = None


class Outer(msgspec.Struct):
    entries: dict[str, str] | None = None
    lists: dict[str, dict[str, list[Inner] | None] | None] | None = None
    numbered: dict[int, Inner | None] | None = None
    count: int = 0
    names: list[str] | None = None
    inner: Inner = msgspec.field(default_factory=Inner)


TEXT = Text()
INNER = Struct(
    "main.B",
    Inner,
    {"numaAffinity": ("nodes", Items(INT)), "size": ("size", UINT64), "r": ("raw", Bytes())},
)
OUTER = Struct(
    "main.X",
    Outer,
    {
        "entries": ("entries", Keyed(TEXT)),
        "l": ("lists", Keyed(Keyed(Items(INNER)))),
        "n": ("numbered", Numbered(Pointer(INNER))),
        "c": ("count", UINT64),
        "s": ("names", Items(TEXT)),
        "b": ("inner", INNER),
    },
)

BASE64 = "string into Go struct field X.b.r of type []uint8: illegal base64 data at input byte"
# Each message was given by Go itself for the same structures.
REFUSED = [
    ("[]", "array into Go value of type main.X"),
    ("5", "number into Go value of type main.X"),
    ('{"entries":{"pod-a":{}}}', "object into Go struct field X.entries.pod-a of type string"),
    ('{"ENTRIES":{"a":true}}', "bool into Go struct field X.ENTRIES.a of type string"),
    (
        '{"entries":{"a":true,"b":1},"c":"x"}',
        "bool into Go struct field X.entries.a of type string",
    ),
    ('{"entries":{"7308f9fa":5}}', "number into Go struct field X.entries.7308f9fa of type string"),
    ('{"entries":{"7":5}}', "number into X.entries.7 of type string"),
    ('{"entries":{"pod.7":5}}', "number into X.entries.pod.7 of type string"),
    ('{"entries":{"a/b~c":5}}', "number into Go struct field X.entries.a~1b~0c of type string"),
    ('{"l":5}', "number into Go struct field X.l of type map[string]map[string][]main.B"),
    ('{"l":{"p":{"c":5}}}', "number into Go struct field X.l.p.c of type []main.B"),
    ('{"l":{"p":{"c":[5]}}}', "number into X.l.p.c.0 of type main.B"),
    (
        '{"l":{"p":{"c":[{"size":-1}]}}}',
        "number -1 into Go struct field X.l.p.c.0.size of type uint64",
    ),
    (
        '{"l":{"p":{"c":[{"numaAffinity":[1,"x"]}]}}}',
        "string into X.l.p.c.0.numaAffinity.1 of type int",
    ),
    ('{"n":{"1":{"size":1.5}}}', "number 1.5 into Go struct field X.n.1.size of type uint64"),
    ('{"n":{"q":{}}}', "number q into Go struct field X.n.q of type int"),
    ('{"n":{"1.0":{}}}', "number 1.0 into X.n.1.0 of type int"),
    ('{"n":{"1":5}}', "number into X.n.1 of type main.B"),
    ('{"c":"x"}', "string into Go struct field X.c of type uint64"),
    ('{"c":1e3}', "number 1e3 into Go struct field X.c of type uint64"),
    ('{"c":-0}', "number -0 into Go struct field X.c of type uint64"),
    (
        '{"c":18446744073709551616}',
        "number 18446744073709551616 into Go struct field X.c of type uint64",
    ),
    ('{"s":[null,{}]}', "object into X.s.1 of type string"),
    (
        '{"b":{"r":"x"}}',
        f"{BASE64} 0",
    ),
    (
        '{"b":{"r":"eH=g"}}',
        f"{BASE64} 2",
    ),
    ('{"b":{"r":[1,300]}}', "number 300 into X.b.r.1 of type uint8"),
    ('{"b":{"r":5}}', "number into Go struct field X.b.r of type []uint8"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_value_of_another_kind_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        read(text.encode(), OUTER)
    assert str(caught.value) == f"json: cannot unmarshal {message}"


def test_reading_goes_on_after_a_wrong_value() -> None:
    found, fault = attempt(b'{"c":"x","entries":{"a":"1","b":2},"s":["y"]}', OUTER)
    assert fault is not None
    assert "X.c" in fault
    assert found == Outer(entries={"a": "1", "b": ""}, names=["y"])


def test_a_text_that_is_no_json_gives_the_empty_value_and_its_fault() -> None:
    assert attempt(b"{", OUTER) == (Outer(), "unexpected end of JSON input")


@pytest.mark.parametrize(
    "text",
    ['{"Entries":{"a":"1"}}', '{"ENTRIES":{"a":"1"}}', '{"entrie\u017f":{"a":"1"}}'],
)
def test_keys_of_a_structure_match_without_regard_to_case(text: str) -> None:
    assert read(text.encode(), OUTER).entries == {"a": "1"}


def test_unknown_keys_are_passed_over() -> None:
    assert read(b'{"x":{"y":[1,{}]},"c":3}', OUTER) == Outer(count=3)


def test_a_key_that_comes_twice_is_read_into_what_was_there() -> None:
    assert read(b'{"entries":{"a":"1"},"entries":{"b":"2"}}', OUTER).entries == {"a": "1", "b": "2"}
    assert read(b'{"b":{"size":1},"b":{"numaAffinity":[3]}}', OUTER).inner == Inner([3], 1)
    assert read(b'{"s":["a","b"],"s":["c"]}', OUTER).names == ["c"]
    assert read(b'{"c":1,"C":2}', OUTER).count == 2


def test_null_empties_lists_and_maps_and_changes_nothing_else() -> None:
    found = read(b'{"c":1,"c":null,"entries":{"a":"1"},"entries":null,"s":[],"s":null}', OUTER)
    assert found == Outer(count=1, entries=None, names=None)
    assert read(b'{"n":{"1":null},"l":{"p":null}}', OUTER) == Outer(
        numbered={1: None}, lists={"p": None}
    )
    assert read(b"null", OUTER) == Outer()


def test_numbers_of_nodes_may_be_written_as_go_writes_and_reads_them() -> None:
    found = read(b'{"n":{"+1":{},"01":{"size":2},"-0":{}}}', OUTER).numbered
    assert found == {1: Inner(size=2), 0: Inner()}


def test_bytes_are_base64_with_line_ends_or_a_list_of_numbers() -> None:
    assert read(b'{"b":{"r":"eHh4\\n"}}', OUTER).inner.raw == b"xxx"
    assert read(b'{"b":{"r":[1,2]}}', OUTER).inner.raw == b"\x01\x02"
    assert read(b'{"b":{"r":""}}', OUTER).inner.raw == b""
    assert read(b'{"b":{"r":null}}', OUTER).inner.raw is None


def test_half_of_a_surrogate_pair_becomes_a_stand_in() -> None:
    found = read(b'{"entries":{"a\\ud800":"x\\udc00","b":"\\ud83d\\ude00"}}', OUTER).entries
    assert found == {"a\ufffd": "x\ufffd", "b": "😀"}
