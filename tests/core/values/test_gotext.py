"""Numbers, truth values and quotes as Go reads and writes them."""

import pytest

from numalign.core.values.gotext import atoi, map_text, parse_bool, quoted


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("T", True), ("TRUE", True), ("0", False), ("False", False)]
)
def test_go_knows_these_truth_values(text, value):
    assert parse_bool(text) is value


@pytest.mark.parametrize("text", ["yes", "tRUE", ""])
def test_other_words_are_no_truth_values(text):
    with pytest.raises(ValueError, match=r"strconv\.ParseBool: parsing .*: invalid syntax"):
        parse_bool(text)


def test_numbers_end_at_64_bits():
    assert atoi("+9223372036854775807") == 2**63 - 1
    assert atoi("-9223372036854775808") == -(2**63)
    with pytest.raises(ValueError, match="value out of range"):
        atoi("9223372036854775808")


def test_nothing_but_digits_and_a_sign_is_a_number():
    for text in ("", " 1", "1_0", "0x1", "\u0661"):
        with pytest.raises(ValueError, match="invalid syntax"):
            atoi(text)


def test_quotes_escape_what_cannot_be_printed():
    assert quoted('a"\n\x01\u200b') == '"a\\"\\n\\x01\\u200b"'


def test_maps_are_printed_by_their_sorted_keys():
    assert map_text({"b": "2", "a": "1"}) == "map[a:1 b:2]"
