"""One pod against all hosts, and what is kept for the next one."""

from dataclasses import replace

import numpy as np
from tests.core.cluster.nrt_match.amounts import amounts, app, host, need

from numalign.core.cluster.nrt_match.columns import Columns
from numalign.core.cluster.nrt_match.evaluate import Evaluator, evaluated
from numalign.core.cluster.nrt_match.match import Strategy, score

LEAST = Strategy.LEAST_ALLOCATED
POD = need(app(cpu=4))


def filled(*cpus):
    columns = Columns()
    for number, count in enumerate(cpus):
        columns.put(host(amounts(cpu=count), name=f"h{number}"))
    return columns


def test_only_hosts_that_take_the_pod_are_scored_unless_all_are_wanted():
    columns = filled(8, 2, 2)
    found = evaluated(columns, POD, LEAST, {})
    assert found.fitting.tolist()[:3] == [True, False, False]
    assert found.scores.tolist()[1] == 0
    every = evaluated(columns, need(app(cpu=4)), Strategy.MOST_ALLOCATED, {}, scores_all=True)
    expected = score(columns.record(1), POD, Strategy.MOST_ALLOCATED, {})
    assert every.scores.tolist()[1] == expected


def test_some_slots_are_evaluated_in_their_order():
    found = evaluated(filled(8, 2, 16), POD, LEAST, {}, np.array([2, 0], np.intp))
    assert found.scores.tolist() == [75, 50]


def test_amounts_that_columns_cannot_hold_are_compared_one_by_one():
    odd = need(app(cpu="3999999999n"))
    found = evaluated(filled(8, 2, 4), odd, LEAST, {})
    assert found.fitting.tolist()[:3] == [True, False, True]


def test_a_host_that_changes_is_looked_at_again():
    columns = filled(8, 2)
    evaluator = Evaluator(columns, LEAST, {})
    assert evaluator.evaluated(POD).fitting.tolist()[:2] == [True, False]
    columns.put(replace(host(amounts(cpu=6)), name="h1"))
    columns.remove("h0")
    assert evaluator.evaluated(POD).fitting.tolist()[:2] == [False, True]
