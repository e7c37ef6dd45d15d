from dataclasses import replace

from tests.apps.simulator.report.test_summary import RUNS, a_run

from numalign.apps.simulator.report.summary import rows
from numalign.apps.simulator.report.words import words


def variant(name, run, **changes):
    return replace(run, variant=name, **changes)


def test_the_others_are_told_by_what_they_cost():
    best, other = words(rows(RUNS))
    assert best == (
        "b does best: all 10 pods placed, no refusal, and 40.0 % of what is idle is useless to the "
        "reference mix."
    )
    assert other == "a: 6 more refusals (3 pods refused more than once) than with b."


def test_what_is_better_about_a_worse_one_is_told_too():
    runs = [a_run("a", 1, 10, 0), a_run("b", 1, 8, 0, useless=(0, 0, 0.1, 0.1))]
    assert words(rows(runs))[1] == (
        "b: 2 more pods without a place than with a, "
        "but 30.0 points fewer of the idle CPUs useless."
    )


def test_a_variant_is_compared_with_the_settings_as_they_are():
    as_is = a_run("a", 1, 8, 4)
    runs = [
        as_is,
        variant("same", as_is),
        variant("equal", as_is),
        variant("slow", as_is, placed=10, refusals={}, waits=[60.0, 60.0]),
        variant("apart", as_is, aligned=-1),
    ]
    found = words(rows(runs))
    assert found[0].startswith("slow: a does best")
    assert found[1:] == [
        "slow: a: 58 s longer to a place on average than as it is, "
        "but 2 fewer pods without a place and 4 fewer refusals.",
        "same: a and equal: a: no difference that is told here.",
        "apart: a: 12.5 % more of the pods on more NUMA nodes than they need than as it is.",
    ]


def test_an_interrupted_run_is_compared_with_nothing():
    part = variant("as-is", a_run("b", 1, 3, 0), is_complete=False, jobs=3)
    best, left_out = words(rows([a_run("a", 1, 9, 4), part]))
    assert best.startswith("a does best")
    assert left_out == "b (interrupted) is left out of the comparison: 3 pods had come."
    assert words(rows([part]))[0] == "No run came to an end, so nothing is compared."
