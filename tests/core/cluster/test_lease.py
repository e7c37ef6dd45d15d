"""Who acts: the rules of a lease."""

from dataclasses import replace

from numalign.core.cluster.lease import Record, Step, Watching, next_record, step

THEIRS = Record("other", 15, 3, "v1")


def test_who_finds_no_lease_makes_one():
    known = Watching("me").seen(None, 5)
    assert step(known, 5) is Step.CREATE
    assert next_record(known, 20) == Record("me", 20, 0, "")


def test_a_lease_of_another_is_taken_once_it_has_not_changed_for_its_time():
    known = Watching("me").seen(THEIRS, 100)
    assert step(known, 114.9) is Step.WAIT
    assert step(known, 115) is Step.TAKE
    assert next_record(known, 15) == Record("me", 15, 4, "v1")


def test_every_change_of_the_record_starts_the_time_anew():
    known = Watching("me").seen(THEIRS, 100).seen(replace(THEIRS, version="v2"), 110)
    assert step(known, 124.9) is Step.WAIT
    assert known.seen(replace(THEIRS, version="v2"), 120) == known
    assert step(known, 125) is Step.TAKE


def test_a_lease_that_was_given_back_is_taken_at_once():
    assert step(Watching("me").seen(replace(THEIRS, holder=""), 100), 100) is Step.TAKE


def test_the_own_lease_is_renewed_without_counting_a_transition():
    known = Watching("me").seen(replace(THEIRS, holder="me"), 100)
    assert step(known, 500) is Step.RENEW
    assert next_record(known, 15).transitions == 3
