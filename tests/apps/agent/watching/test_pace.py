"""How late the loop is: told while it matters, with the place, and forgotten after."""

import asyncio
import time

import structlog

from numalign.apps.agent.watching.pace import KEPT_SECONDS, Pace


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_long_delay_is_a_problem_for_a_minute():
    clock = Clock()
    pace = Pace(clock)
    pace.note(0.9)
    assert pace.problems() == []
    pace.note(2.5)
    pace.note(1.5)
    clock.now += 10
    [problem] = pace.problems()
    assert problem.startswith("the loop was held up for 2.5 s, 10 s ago")
    clock.now += KEPT_SECONDS
    assert pace.problems() == []


def test_work_that_the_next_decision_waits_for_is_told_while_it_lasts():
    clock = Clock()
    pace = Pace(clock)
    pace.begin("Save")
    clock.now += 0.5
    assert pace.problems() == []
    clock.now += 3
    assert pace.problems()[0].startswith("decisions wait: Save has taken 4 s so far")
    pace.end()
    assert pace.problems() == []


def test_a_loop_that_is_blocked_is_measured_and_the_place_is_found():
    heard = []
    pace = Pace()
    pace.on_delay = heard.append

    async def work():
        watch = asyncio.create_task(pace.watch())
        await asyncio.sleep(0.25)
        structlog.get_logger().info("before")
        time.sleep(1.8)  # just what nobody may do
        await asyncio.sleep(0.3)
        watch.cancel()

    asyncio.run(work())
    assert max(heard) > 1.2
    assert len(heard) >= 3
    [problem] = pace.problems()
    assert "the loop was held up for" in problem
