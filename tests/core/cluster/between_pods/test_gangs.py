"""Which of several gangs with too few pods gives its room back."""

from numalign.core.cluster.between_pods.gangs import RELEASE_SECONDS, Stuck, to_release

LATE = RELEASE_SECONDS + 10


def stuck(name, priority=0, since=0.0):
    return Stuck((False, name), priority, since)


def test_a_gang_alone_keeps_what_it_has():
    assert to_release([stuck("a")], LATE) is None
    assert to_release([], LATE) is None


def test_of_two_the_lower_one_goes_and_of_equals_the_younger_one():
    assert to_release([stuck("a", 1), stuck("b", 2)], LATE) == (False, "a")
    assert to_release([stuck("a", since=1), stuck("b", since=2)], LATE) == (False, "b")


def test_nobody_goes_before_both_have_waited_long_enough():
    assert to_release([stuck("a"), stuck("b", since=20)], LATE) is None
