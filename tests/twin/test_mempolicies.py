"""Each memory policy on a real NUMA kernel: every page of a container, by numa_maps."""

import pytest
from tests.real.guest import TOPOLOGIES, CallError, Guest
from tests.real.kept import MissingError
from tests.twin.mempolicies import PAGES

pytestmark = pytest.mark.e2e_numa

# Policy, CPUs, nodes that the memory manager gave; what numa_maps says, and pages by node.
CASES = [
    ("local", "0-3", "0-3", "local", {"0": PAGES}),
    ("local", "8-11", "0-3", "local", {"2": PAGES}),
    ("preferred=3", "0-3", "0-3", "prefer:3", {"3": PAGES}),
    ("bind=1", "0-3", "0-3", "bind:1", {"1": PAGES}),
    ("bind", "0-3", "2", "bind:2", {"2": PAGES}),
    ("interleave", "0-3", "0-1", "interleave:0-1", {"0": PAGES // 2, "1": PAGES // 2}),
    ("interleave", "0-3", "0-3", "interleave:0-3", dict.fromkeys("0123", PAGES // 4)),
    ("interleave=1,3", "0-3", "0-3", "interleave:1,3", {"1": PAGES // 2, "3": PAGES // 2}),
]


@pytest.fixture(scope="module")
def guest():
    try:
        found = Guest(TOPOLOGIES["four-nodes"])
    except MissingError as error:
        pytest.skip(str(error))
    with found:
        yield found


@pytest.fixture(scope="module")
def newer_guest():
    try:
        found = Guest(TOPOLOGIES["two-sockets"], is_newer=True)
    except MissingError as error:
        pytest.skip(str(error))
    with found:
        yield found


@pytest.mark.parametrize(("policy", "cpus", "mems", "said", "counts"), CASES)
def test_every_page_is_where_the_policy_says(guest, policy, cpus, mems, said, counts):
    found = guest.call("tests.twin.mempolicies:pages", policy, cpus, mems, seconds=120)
    assert found == [said, counts]


def test_a_kernel_without_weighted_interleave_says_so(guest):
    with pytest.raises(CallError, match="could not set the memory policy weighted-interleave"):
        guest.call("tests.twin.mempolicies:pages", "weighted-interleave", "0-3", "0-1")


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 1), (1, 7)])
def test_weighted_interleave_follows_the_weights_page_by_page(newer_guest, first, second):
    release = newer_guest.call("tests.real.guest_server:read", "/proc/sys/kernel/osrelease")
    if tuple(int(part) for part in release.split(".")[:2]) < (6, 9):
        pytest.skip(f"Linux {release.strip()} has no weighted interleave")
    for node, weight in enumerate((first, second)):
        newer_guest.call("tests.twin.mempolicies:set_weight", node, weight)
    policy = "weighted-interleave"
    said, counts = newer_guest.call(
        "tests.twin.mempolicies:pages", policy, "0-3", "0-1", seconds=120
    )
    assert said == "weighted interleave:0-1"
    share = PAGES // (first + second)
    assert counts == {"0": first * share, "1": second * share}
