"""Quantities against the recorded ones, against exact fractions, and against absurd texts."""

from __future__ import annotations

import copy
import pickle
import time
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.vectors import lines

from numalign.conformance import checkpoints
from numalign.core.values.quantity import (
    EXPONENT_MAX,
    TEXT_LENGTH_MAX,
    ZERO,
    Quantity,
    hugepage_type,
)

REGEX_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "e3": Fraction(10**3),
    "E-2": Fraction(1, 100),
}
NUMBERS = st.decimals(min_value=0, max_value=5000, places=4).map(lambda number: f"{number:f}")
AMOUNTS = st.tuples(NUMBERS, st.sampled_from(sorted(SUFFIXES)))
TEXTS = AMOUNTS.map("".join)


def test_agrees_with_every_recorded_quantity() -> None:
    differences = [(line["in"], checkpoints.quantity(line)) for line in lines("unit/quantity")]
    assert [pair for pair in differences if pair[1]] == []
    assert len(differences) == 285


def test_agrees_with_every_recorded_cpu_set() -> None:
    differences = [checkpoints.cpuset(line) for line in lines("unit/cpuset")]
    assert [found for found in differences if found] == []
    assert len(differences) == 586


# What the real code gave for texts that the vectors do not reach:
# text, value, thousandths, int64, canonical text.
ODD_TEXTS = [
    ("+1", 1, 1000, 1, "+1"),
    ("-1.5", -2, -1500, None, "-1500m"),
    ("-100m", -1, -100, None, "-100m"),
    ("01Mi", 1048576, 1048576000, 1048576, "01Mi"),
    ("+1Mi", 1048576, 1048576000, 1048576, "+1Mi"),
    ("+8Mi", 8388608, 8388608000, 8388608, "8Mi"),
    ("+1024Ki", 1048576, 1048576000, 1048576, "1Mi"),
    ("5.Gi", 5368709120, 5368709120000, 5368709120, "5.Gi"),
    ("1.5Ki", 1536, 1536000, None, "1536"),
    ("100Ti", 109951162777600, 109951162777600000, None, "100Ti"),
    (".", 0, 0, 0, "0"),
    ("Ki", 0, 0, 0, "0"),
    ("1E5", 100000, 100000000, 100000, "100e3"),
    ("1e+3", 1000, 1000000, 1000, "1e+3"),
    ("1e-10", 1, 1, None, "1e-9"),
    ("999999999999999999", 999999999999999999, 3875820019684211736, 999999999999999999, None),
]


@pytest.mark.parametrize(("text", "value", "milli", "int64", "canonical"), ODD_TEXTS)
def test_reads_odd_texts_as_the_kubelet_does(
    text: str, value: int, milli: int, int64: int | None, canonical: str | None
) -> None:
    found = Quantity.parse(text)
    assert (found.value(), found.milli(), found.as_int64()) == (value, milli, int64)
    assert str(found) == (canonical or text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", REGEX_TEXT),
        (" 1", REGEX_TEXT),
        ("1 ", REGEX_TEXT),
        ("1\n", REGEX_TEXT),
        ("1.1.M", REGEX_TEXT),
        ("1+1.0M", REGEX_TEXT),
        ("\u0661", REGEX_TEXT),
        ("1i", "unable to parse quantity's suffix"),
        ("1K", "unable to parse quantity's suffix"),
        ("0.1mi", "unable to parse quantity's suffix"),
        ("-3.01e-", "unable to parse quantity's suffix"),
        ("--1", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e999999999", "unable to parse quantity's suffix"),
        (f"1e-{EXPONENT_MAX + 1}", "unable to parse quantity's suffix"),
    ],
)
def test_refuses_a_bad_text_with_the_kubelets_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "9" * 200,
        "-" + "9" * 200 + "Gi",
        "0." + "0" * 900 + "1",
        f"1e{EXPONENT_MAX}",
        f"1e-{EXPONENT_MAX}",
        "1" * (TEXT_LENGTH_MAX - 1) + "x",
        "1." + "1" * (TEXT_LENGTH_MAX - 10) + "x",
        "1" * 100_000,
        "1e" + "9" * 900,
    ],
)
def test_an_absurd_text_costs_no_time(text: str) -> None:
    start = time.perf_counter()
    try:
        found = Quantity.parse(text)
        str(found), found.value(), found.milli(), found.micro(), found.as_int64()
    except ValueError:
        pass
    assert time.perf_counter() - start < 10, "it does not end"


def test_anything_finer_than_a_billionth_is_rounded_up() -> None:
    assert str(Quantity.parse("0.0000000001")) == "1n"
    assert str(Quantity.parse("1.1n")) == "2n"
    assert str(Quantity.parse("-1.1n")) == "-2n"


@given(AMOUNTS)
def test_value_and_thousandths_are_the_exact_amount_rounded_up(amount: tuple[str, str]) -> None:
    number, suffix = amount
    found = Quantity.parse(number + suffix)
    nanos = ceil(Fraction(number) * SUFFIXES[suffix] * 10**9)
    assert found.nanos == nanos
    assert found.value() == -(-nanos // 10**9)
    assert found.milli() == -(-nanos // 10**6)
    assert found.micro() == -(-nanos // 10**3)


@given(TEXTS)
def test_the_canonical_text_names_the_same_amount(text: str) -> None:
    found = Quantity.parse(text)
    again = Quantity.parse(str(found))
    assert again == found
    assert hash(again) == hash(found)


@given(TEXTS, TEXTS)
def test_sums_and_order_are_those_of_the_amounts(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a + b).nanos == a.nanos + b.nanos
    assert (a - b).nanos == a.nanos - b.nanos
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        a.nanos < b.nanos,
        a.nanos <= b.nanos,
        a.nanos > b.nanos,
        a.nanos >= b.nanos,
        a.nanos == b.nanos,
    )


def test_a_sum_is_written_like_its_left_side_unless_that_is_nothing() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1048576")) == "1025Mi"
    assert str(Quantity.parse("1048576") + Quantity.parse("1Gi")) == "1074790400"
    assert str(Quantity.parse("500Mi") + Quantity.parse("600Mi")) == "1100Mi"
    assert str(ZERO + Quantity.parse("512Mi")) == "512Mi"
    assert str(Quantity.parse("1") + Quantity.parse("500m")) == "1500m"
    assert str(Quantity.parse("2Gi") - Quantity.parse("2Gi")) == "0"


def test_a_sum_of_whole_texts_stays_an_int64_and_one_with_a_fraction_does_not() -> None:
    assert (Quantity.parse("1Gi") + Quantity.parse("1Mi")).as_int64() == 2**30 + 2**20
    assert (Quantity.parse("1500m") + Quantity.parse("500m")).as_int64() is None
    assert (Quantity.parse("1Pi") + Quantity.parse("1")).as_int64() is None
    assert (Quantity.parse("9E") + Quantity.parse("9E")).as_int64() is None


def test_a_quantity_of_a_number_is_written_with_the_suffixes_asked_for() -> None:
    assert str(Quantity.of(2**30, binary=True)) == "1Gi"
    assert str(Quantity.of(2**30)) == "1073741824"
    assert str(Quantity.of(3000)) == "3k"
    assert str(Quantity.of_milli(1500)) == "1500m"
    assert Quantity.of(2**63).as_int64() is None
    assert Quantity.of(7).as_int64() == 7


def test_nothing_is_false_and_equal_to_nothing_in_any_spelling() -> None:
    assert not Quantity.parse("0Gi")
    assert Quantity.parse("0") == Quantity.parse("0.000m") == ZERO
    assert Quantity.parse("1") != 1


def test_copies_are_equal() -> None:
    found = Quantity.parse("1.5Gi")
    assert copy.deepcopy(found) == found == pickle.loads(pickle.dumps(found))
    assert repr(found) == "Quantity('1536Mi')"


@pytest.mark.parametrize(
    ("kilobytes", "name"),
    [
        (64, "hugepages-64Ki"),
        (2048, "hugepages-2Mi"),
        (32768, "hugepages-32Mi"),
        (524288, "hugepages-512Mi"),
        (1048576, "hugepages-1Gi"),
        (16777216, "hugepages-16Gi"),
    ],
)
def test_huge_pages_are_named_by_their_canonical_size(kilobytes: int, name: str) -> None:
    assert hugepage_type(kilobytes * 1024) == name
