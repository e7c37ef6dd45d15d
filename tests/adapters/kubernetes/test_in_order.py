"""Requests about one thing keep their order; others run beside them, up to a limit."""

import asyncio

from numalign.adapters.kubernetes.in_order import InOrder


def ran(most, *keys):
    """What began and ended when each request takes a few turns of the loop, the first one most."""
    happened = []

    async def request(line, number, key):
        async with line.turn(key):
            happened.append(("begin", number))
            for _ in range(2 * (len(keys) - number)):
                await asyncio.sleep(0)
            happened.append(("end", number))

    async def all_of_them():
        line = InOrder(most)
        await asyncio.gather(*(request(line, n, key) for n, key in enumerate(keys)))
        return line

    return happened, asyncio.run(all_of_them())


def test_what_is_about_one_thing_comes_one_after_the_other():
    happened, _ = ran(8, "a", "a", "a")
    assert happened == [(what, n) for n in range(3) for what in ("begin", "end")]


def test_what_is_about_other_things_does_not_wait():
    happened, _ = ran(8, "a", "b")
    assert happened[:2] == [("begin", 0), ("begin", 1)]


def test_no_more_than_the_limit_run_at_once():
    happened, _ = ran(2, "a", "b", "c")
    assert happened[:2] == [("begin", 0), ("begin", 1)]
    assert happened[2][0] == "end"


def test_a_line_that_is_empty_is_forgotten():
    _, line = ran(2, "a", "b", "a")
    assert (line._lines, line._lengths) == ({}, {})
