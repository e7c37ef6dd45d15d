"""Sets of numbers as bits and as the kernel's lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.values.sets import CpuSet, NodeSet, bits, format_list, lowest, parse_list


@given(st.sets(st.integers(0, 300)))
def test_a_list_says_what_was_in_the_set(ids):
    found = CpuSet.of(ids)
    assert set(CpuSet.parse(str(found))) == ids


def test_runs_are_written_as_ranges():
    assert format_list(0b1011_0111) == "0-2,4-5,7"
    assert format_list(0) == ""


def test_the_lowest_members_are_taken():
    assert lowest(0b11010, 2) == 0b01010
    assert lowest(0b11010, 0) == 0
    assert list(bits(0b11010)) == [1, 3, 4]


def test_cpus_and_nodes_are_never_equal():
    assert CpuSet(1) != NodeSet(1)
    assert CpuSet.of([1]).issubset(CpuSet.of([1, 2]))
    assert not CpuSet.of([1, 3]).issubset(CpuSet.of([1, 2]))


@pytest.mark.parametrize("text", ["3-1", " 1", "1,", "0-6:2", "65536"])
def test_what_the_kubelet_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"invalid|above"):
        parse_list(text)
