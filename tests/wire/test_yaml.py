"""Configuration texts as plain values: what is read, what is refused, and no surprises."""

from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.errors import WireError
from numalign.wire import yaml as plain_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1\nb: [x, 'y']\n", {"a": 1, "b": ["x", "y"]}),
        ("{a: {b: null}}", {"a": {"b": None}}),
        ('{"a": [1, 2.5, "\\ud83d\\ude00"]}', {"a": [1, 2.5, "😀"]}),
        ("a: on\nb: No\nc: 'off'\n", {"a": True, "b": False, "c": "off"}),
        ("a: 12:30\nb: 0777\nc: 2024-01-01\n", {"a": "12:30", "b": "0777", "c": "2024-01-01"}),
        ("a: 1e3\nb: '1'\nc: ~\n", {"a": 1000.0, "b": "1", "c": None}),
        ("true: x\n5: y\n", {"true": "x", "5": "y"}),
        ("a: !!str 5\n", {"a": "5"}),
    ],
)
def test_texts_become_plain_values(text: str, value: object) -> None:
    assert plain_yaml.load(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", 'line 2: found the key "a" twice, expected it once'),
        ('{"a": 1,\n "a": 2}', 'line 2: found the key "a" twice, expected it once'),
        ("a: &x [1]\nb: *x\n", "line 2: found the alias *x, expected the value written out"),
        ("a: !!python/object:os.system x\n", "line 1: found the tag"),
        ("? [a]\n: b\n", "line 1: found a list or map as a key, expected a text"),
        ("a: 1\n---\nb: 2\n", "found 2 documents, expected one"),
        ("a: b: c\n", "mapping values are not allowed in this context at line 1, column 5"),
        ("[" * 1000, "line 1: found more than 100 levels of nesting"),
        ('{"a":' * 1000, "line 1: found more than 100 levels of nesting"),
        ('{"a":' * 200 + "1" + "}" * 200, "line 1: found more than 100 levels of nesting"),
        ("\x00", "found unreadable YAML"),
        ("x" * (plain_yaml.SIZE_BYTES_MAX + 1), "expected at most 1048576"),
    ],
)
def test_what_we_do_not_read_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(WireError) as caught:
        plain_yaml.load(text.encode())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(WireError, match="found byte 3 that is no UTF-8"):
        plain_yaml.load(b"a:\xff")


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(WireError, match="found the alias"):
        plain_yaml.load(("l0: &l0 x\n" + "\n".join(levels)).encode())


NAMES = st.text(string.ascii_letters + " -_#:é😀", max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_what_a_yaml_writer_writes_reads_back(value: dict[str, object]) -> None:
    assert plain_yaml.load(yaml.safe_dump(value, allow_unicode=True).encode()) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        plain_yaml.load(data)
    except WireError as exc:
        assert str(exc)


@pytest.mark.parametrize("text", ["1" * 5_000, "1e-9999", "1" * 50 + ".5"])
def test_a_number_that_is_not_read_as_one_is_a_plain_text_that_can_be_written_again(text):
    found = plain_yaml.load(f'{{"a": {text}}}'.encode())["a"]
    assert type(found) in {str, float}
