import re

import pytest

from numalign.apps.simulator.report.charts import Series, bars, lines, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (7.5, "7.5"),
        (2500, "2500"),
        (40_000, "40 k"),
        (1_500_000, "1.5 M"),
        (2e9, "2 G"),
    ],
)
def test_numbers_on_an_axis_are_short(value, text):
    assert short(value) == text


def test_no_number_is_written_with_an_exponent_or_beyond_the_edge():
    found = bars("b", [("a name that is longer than there is room for it", 67_064), ("p50", 0.3)])
    assert "67,064" in found
    assert "e+" not in found + lines("l", [Series("s", [(0, 0), (9e5, 1_400_000)])])
    ends = [
        float(x) + 7 * len(text) for x, text in re.findall(r'x="(\d+\.\d)"[^>]*>([^<]*)<', found)
    ]
    assert max(ends) < 420
