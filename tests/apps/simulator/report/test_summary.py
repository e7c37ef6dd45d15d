from numalign.apps.simulator.report.summary import percentile, ranked, rows
from numalign.core.fleet.simulation.model import RunResult, Sample


def a_run(scheduler, seed, placed, refusals, useless=(0.1, 0.2, 0.3, 0.5)):
    samples = [
        Sample(float(i), {"f_numa_cpu_share": value, "refusals_so_far": float(i)})
        for i, value in enumerate(useless)
    ]
    found = RunResult("as-is", scheduler, seed, jobs=10, placed=placed, samples=samples)
    found.refusals = {"TopologyAffinityError": refusals} if refusals else {}
    found.refused_again = refusals // 2
    found.waits = [1.0, 2.0, 3.0]
    return found


RUNS = [a_run("a", 1, 9, 4), a_run("a", 2, 10, 8), a_run("b", 1, 10, 0), a_run("b", 2, 10, 0)]


def test_refusals_are_counted_at_the_end_and_measures_over_the_second_half():
    first, second = rows(RUNS)
    assert first.values["refusals"].mean == 6
    assert first.refusals == {"TopologyAffinityError": 12}
    assert first.values["f_numa_cpu_share"].mean == 0.4
    assert second.values["unplaced"].mean == 0


def test_the_best_is_first():
    assert [row.scheduler for row in ranked(rows(RUNS))] == ["b", "a"]


def test_pods_that_were_taken_apart_count_before_fragments():
    apart = a_run("a", 1, 10, 0, useless=(0, 0, 0, 0))
    apart.aligned = 9
    whole = a_run("b", 1, 10, 0)
    whole.aligned = 10
    assert [row.scheduler for row in ranked(rows([apart, whole]))] == ["b", "a"]


def test_percentiles_are_by_nearest_rank():
    assert [percentile([3, 1, 2, 4], p) for p in (25, 50, 95, 100)] == [1, 2, 4, 4]
    assert percentile([], 50) == 0
