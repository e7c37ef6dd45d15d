"""Durations as Go reads and prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.values import goduration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("10s", 10_000_000_000, "10s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("2h", 7_200_000_000_000, "2h0m0s"),
        ("100ms", 100_000_000, "100ms"),
        ("1.5s", 1_500_000_000, "1.5s"),
        (".5s", 500_000_000, "500ms"),
        ("5.s", 5_000_000_000, "5s"),
        ("500us", 500_000, "500µs"),
        ("1µs", 1_000, "1µs"),
        ("1\u03bcs", 1_000, "1µs"),
        ("-2m", -120_000_000_000, "-2m0s"),
        ("1ns", 1, "1ns"),
        ("0", 0, "0s"),
        ("1m0.000000001s", 60_000_000_001, "1m0.000000001s"),
    ],
)
def test_reads_and_prints_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    assert goduration.parse(text) == nanoseconds
    assert goduration.text_of(nanoseconds) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1h 3m", 'time: unknown unit "h " in duration "1h 3m"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
    ],
)
def test_refuses_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        goduration.parse(text)
    assert str(caught.value) == message


@given(st.integers(-(2**62), 2**62))
def test_a_printed_duration_reads_back_as_itself(nanoseconds: int) -> None:
    assert goduration.parse(goduration.text_of(nanoseconds)) == nanoseconds


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        goduration.parse(text)
    except ValueError as exc:
        assert str(exc).startswith("time: ")
