"""Sizes are short and never say more than they know."""

import pytest

from numalign.core.values.sizes import counted, human


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (48 * 1024, "48 KiB"),
        (1280 * 1024, "1.25 MiB"),
        (36_608 * 1024, "35.75 MiB"),
        (32 << 20, "32 MiB"),
        ((1 << 30) + 1, "1 GiB"),
        (270_300_000_000, "251.7 GiB"),
        (3 << 40, "3 TiB"),
        (2000 << 50, "2000 PiB"),
    ],
)
def test_a_size_is_told_in_its_largest_fitting_unit(size, text):
    assert human(size) == text


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "core") for n in (0, 1, 2)] == ["0 cores", "1 core", "2 cores"]
    assert counted(2, "die", "dice") == "2 dice"
