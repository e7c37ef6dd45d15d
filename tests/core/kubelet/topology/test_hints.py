"""Hints as descriptions: which sets of nodes are meant, and which of them is the best."""

from numalign.core.kubelet.topology.hints import Hint, HintSet, Region, SocketRule
from numalign.core.kubelet.topology.node_search import Need

FOUR = ((0b0001, 4), (0b0010, 4), (0b0100, 8), (0b1000, 8))


def asked(amount, *, must=0, count=1, exact=frozenset(), rule=None):
    region = Region(0b1111, must, (Need(amount, FOUR),))
    return HintSet((0, 1, 2, 3), count, region, exact, rule)


def test_every_set_with_enough_is_a_hint_and_no_other():
    found = asked(12)
    assert found.contains(0b0101)
    assert not found.contains(0b0011)
    assert not found.contains(0b10100)


def test_a_region_holds_only_sets_with_the_nodes_that_must_be_there():
    found = asked(8, must=0b0001)
    assert not found.contains(0b0100)
    assert found.contains(0b0101)
    assert found.singles() == 0


def test_the_best_hint_is_preferred_then_narrow_then_of_the_lowest_nodes():
    assert asked(8).best() == Hint(0b0100, preferred=True)
    assert asked(8, count=2).best() == Hint(0b0011, preferred=True)
    assert asked(16, count=1).best() == Hint(0b1100, preferred=False)
    assert asked(25).best() is None
    exact = frozenset({0b0010, 0b0100})
    assert asked(25, exact=exact).best() == Hint(0b0010, preferred=True)


def test_a_hint_within_nodes_contains_them_all():
    assert asked(8).best(0b0001) == Hint(0b0011, preferred=False)
    assert asked(8, count=2).best(0b1000) == Hint(0b1001, preferred=True)


def test_exact_sets_are_hints_beside_the_region():
    found = asked(16, exact=frozenset({0b0001}))
    assert found.contains(0b0001)
    assert found.singles() == 0b0001
    assert found.narrowest_count() == 1
    assert asked(16).narrowest_count() == 2


def test_hints_that_touch_as_many_sockets_as_needed_are_preferred_too():
    found = asked(8, rule=SocketRule((0b0011, 0b1100), 1))
    assert found.is_preferred(0b0011)
    assert not found.is_preferred(0b0110)


def test_hints_are_listed_by_size_and_then_by_their_nodes():
    masks = [hint.nodes for hint in asked(8).listed()]
    assert masks[:5] == [0b0100, 0b1000, 0b0011, 0b0101, 0b1001]
