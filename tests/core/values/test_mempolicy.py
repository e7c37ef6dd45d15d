"""Memory policies: their texts, and the nodes that they may name."""

import pytest

from numalign.core.values.mempolicy import Mempolicy, Mode, parsed
from numalign.core.values.sets import NodeSet

GOOD = ["local", "preferred=1", "bind", "bind=0-1", "interleave=0,2", "weighted-interleave"]
BAD = ["", "Bind", "preferred", "preferred=0-1", "local=0", "bind=", "bind=x", "bind=1-0", "=1"]


@pytest.mark.parametrize("text", GOOD)
def test_a_policy_is_read_and_written_alike(text):
    assert str(parsed(text)) == text


@pytest.mark.parametrize("text", BAD)
def test_another_text_is_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match="expected local, preferred=NODE, bind"):
        parsed(text)


def test_a_policy_without_nodes_takes_all_that_were_given():
    given = NodeSet.parse("0,2")
    assert parsed("interleave").within(given) == Mempolicy(Mode.INTERLEAVE, given)
    assert parsed("bind=2").within(given) == parsed("bind=2")
    assert parsed("local").within(given) == parsed("local")


def test_nodes_that_were_not_given_are_refused_by_name():
    with pytest.raises(ValueError, match=r"bind=1-2: found NUMA nodes 1, expected some of 0,2,"):
        parsed("bind=1-2").within(NodeSet.parse("0,2"))
