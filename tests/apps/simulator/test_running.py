import random

import pytest
from tests.apps.simulator.scenarios import scenario

from numalign.apps.simulator.report.files import files
from numalign.apps.simulator.running import Task, all_done, done, in_order, prepared, tasks_of
from numalign.core.fleet.simulation.run import conservation_problems
from numalign.core.kubelet import state_checks


def results(found, jobs):
    return in_order(found, list(all_done(found, jobs, lambda _: False)))


def test_the_same_seeds_give_the_same_bytes_with_any_number_of_jobs():
    found = scenario("schedulers: [totals, numalign]\n")
    one, two = (files(found.form, results(found, jobs), []) for jobs in (1, 2))
    assert one == two


def test_another_seed_gives_another_run():
    found = scenario("schedulers: [fragmentation]\n")
    first, second = results(found, 1)
    assert first.samples != second.samples


@pytest.mark.parametrize("scheduler", ["totals", "upstream:600", "numalign", "fragmentation"])
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "none"])
def test_every_pod_is_in_one_state_and_no_host_gives_what_it_has_not(scheduler, policy):
    found = scenario(f"variants: [{{name: v, kubelet: {{topologyManagerPolicy: {policy}}}}}]\n")
    run = prepared(found, Task(1, scheduler, 1))
    rng = random.Random(2)
    last = max(work.job.at for work in run.works)
    for share in sorted(rng.random() for _ in range(4)):
        run.advance(last * share)
        assert not [p for p in conservation_problems(run) if " in a state" not in p]
    result = run.run(until=last)
    assert not list(conservation_problems(run))
    assert result.running + result.finished + result.waiting + result.given_up == 300
    for host in run.hosts:
        assert not list(state_checks.law_breaches(host.frame.host, host.state))


def test_an_exact_scheduler_is_never_refused_and_one_by_totals_is():
    found = scenario("schedulers: [totals, numalign, fragmentation]\n")
    refusals = {r.scheduler: sum(r.refusals.values()) for r in results(found, 1) if r.seed == 1}
    assert refusals["numalign"] == refusals["fragmentation"] == 0
    assert refusals["totals"] > 0


def test_a_gate_and_back_off_make_fewer_refusals_than_trying_at_once():
    found = scenario(
        "schedulers: [totals]\nvariants:\n"
        "  - {name: back-off, controllers: {recreate: back-off}}\n"
        "  - {name: redeploy, controllers: {redeploy: true}}\n"
    )
    counts = {r.variant: sum(r.refusals.values()) for r in results(found, 1) if r.seed == 1}
    assert counts["redeploy"] <= counts["back-off"] < counts["as-is"]


def test_staler_topologies_lead_to_more_refusals():
    found = scenario("schedulers: ['upstream:1', 'upstream:7200']\n")
    fresh, stale = (
        sum(sum(r.refusals.values()) for r in results(found, 1) if r.scheduler == name)
        for name in ("upstream:1", "upstream:7200")
    )
    assert fresh < stale


def test_an_interrupted_run_tells_what_it_has():
    found = scenario()
    calls = iter([False, True])
    result = done(found, Task(0, "numalign", 1), lambda _: next(calls, True)).result
    assert not result.is_complete
    assert result.jobs == 128  # those that came; the others count for nothing
    assert 0 < result.placed <= 128
    assert result.samples


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_keeps_what_was_done_with_any_number_of_jobs(jobs):
    found = scenario("schedulers: [totals, numalign, fragmentation]\n")
    shares = []

    def stop_soon(share):
        shares.append(share)
        return share > 0.3

    results = in_order(found, list(all_done(found, jobs, stop_soon)))
    assert 0 < len(results) < 6
    assert all(r.is_complete or 0 < r.jobs < 300 for r in results)
    assert shares == sorted(shares)
    assert len(set(shares)) > 3  # it is told how far single runs are


def test_tasks_come_in_the_order_of_the_scenario():
    found = scenario(
        "schedulers: [totals, numalign]\nvariants: [{name: v, schedulers: [totals]}]\n"
    )
    assert [(t.variant, t.scheduler, t.seed) for t in tasks_of(found)] == [
        (0, "totals", 1), (0, "totals", 2), (0, "numalign", 1), (0, "numalign", 2),
        (1, "totals", 1), (1, "totals", 2),
    ]  # fmt: skip
