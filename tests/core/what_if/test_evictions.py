"""Pods that leave, against trying all sets of them."""

import random
from itertools import combinations

import pytest
from tests.core.explain.checks import change_faults
from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import gpus, helping, snapshot

from numalign.core.kubelet.admission.verdict import decide, verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.what_if.search import Kind, freed_of

GPU = "example.com/gpu"


def texts(found, kind):
    return [change.text for change in found if change.kind is kind]


def test_a_setting_that_needs_a_drain_is_not_named_where_the_drain_alone_does_it():
    host = snapshot(settings("single-numa-node"), machine(1), pod("a", container("c", 5, "1Gi")))
    found = helping(host, pod("b", container("x", 6, "1Gi")))
    assert texts(found, Kind.LEAVE) == ["delete or move default/a"]
    assert not any(change.drained for change in found)


def crowded(seed):
    """A host with about nine pods, and a pod that it refuses; None where it does not."""
    rng = random.Random(seed)
    policy = rng.choice(["single-numa-node", "restricted", "best-effort", "none"])
    scope = rng.choice(["container", "pod"])
    options = rng.choice([(), ("full-pcpus-only",), ("distribute-cpus-across-numa",)])
    plugins = {GPU: gpus(0, 1, 1)}
    found = snapshot(
        settings(policy, scope=scope, cpu_options=options, reserved="0-1"),
        machine(),
        plugins=plugins,
    )
    for number in range(9):
        more = {"gpu": 1} if rng.random() < 0.3 else {}
        size = rng.choice(["1Gi", "3Gi", "9Gi"])
        new = pod(f"p{number}", container("c", rng.choice([1, 2, 2, 4]), size, **more))
        after, verdict = decide(found, new)
        if isinstance(verdict, Admitted):
            found = after
    wanted = pod("new", container("c", rng.choice([4, 6, 8]), "6Gi", gpu=rng.choice([1, 2])))
    return None if isinstance(decide(found, wanted)[1], Admitted) else (found, wanted)


def fewest(on, wanted, size_max=3):
    for size in range(1, size_max + 1):
        for uids in combinations(on.state.pods, size):
            state = freed_of(on.host, on.state, uids)
            if isinstance(verdict_on(on.host, state, on.totals, wanted)[1], Admitted):
                return size
    return None


@pytest.mark.parametrize("seed", range(24))
def test_the_fewest_pods_that_leave_are_the_fewest(seed):
    case = crowded(seed)
    if case is None:
        return
    on, wanted = case
    leaving = [change for change in helping(on, wanted) if change.kind is Kind.LEAVE]
    expected = fewest(on, wanted)
    exact = [change for change in leaving if change.exact]
    assert {len(change.leaving) for change in exact} == ({expected} if expected else set())
    for change in helping(on, wanted):
        assert not list(change_faults(on, wanted, change))


def test_most_of_the_crowded_hosts_refuse():
    assert sum(crowded(seed) is not None for seed in range(24)) > 12


def test_one_pod_that_leaves_is_named_before_two():
    busy = [pod(uid, container("c", size, "1Gi")) for uid, size in (("a", 3), ("b", 3), ("x", 7))]
    host = snapshot(settings("single-numa-node"), machine(), *busy)
    found = helping(host, pod("new", container("c", 7, "1Gi")))
    assert texts(found, Kind.LEAVE) == ["delete or move default/x"]
