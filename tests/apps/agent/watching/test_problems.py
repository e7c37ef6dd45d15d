"""Problems are told for as long as they last."""

from numalign.apps.agent.watching.problems import Problems


def test_a_problem_lasts_until_it_is_called_over():
    problems = Problems(lambda: 0.0)
    problems["disk"] = "full"
    assert problems.values() == ["full"] and "disk" in problems
    problems.pop("disk")
    assert problems.values() == []


def test_what_nobody_calls_over_is_told_for_some_time():
    now = [0.0]
    problems = Problems(lambda: now[0])
    problems.note("task", "failed", 10.0)
    now[0] = 9.0
    assert problems.values() == ["failed"]
    now[0] = 10.0
    assert problems.values() == []
