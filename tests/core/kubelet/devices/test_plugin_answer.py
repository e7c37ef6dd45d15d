"""Several plugins' answers for one container."""

from __future__ import annotations

from numalign.core.kubelet.devices.plugin_answer import Allocation, DeviceNode, Mount, merged


def test_of_two_answers_for_one_name_or_path_the_first_counts():
    first = Allocation(
        {"A": "1"}, (Mount("/m", "/1"),), (DeviceNode("/d", "/1"),), {"k": "1"}, ("v/g=0",)
    )
    second = Allocation(
        {"A": "2", "B": "2"},
        (Mount("/m", "/2"), Mount("/n", "/2")),
        (DeviceNode("/d", "/2"),),
        {"k": "2"},
        ("v/g=0", "v/g=1"),
    )
    assert merged([first, second]) == Allocation(
        {"A": "1", "B": "2"},
        (Mount("/m", "/1"), Mount("/n", "/2")),
        (DeviceNode("/d", "/1"),),
        {"k": "1"},
        ("v/g=0", "v/g=1"),
    )


def test_of_two_mounts_of_one_answer_the_first_counts():
    answer = Allocation(mounts=(Mount("/m", "/1"), Mount("/m", "/2")))
    assert merged([answer]).mounts == (Mount("/m", "/1"),)


def test_no_answers_are_an_empty_allocation():
    assert merged([]) == Allocation()
