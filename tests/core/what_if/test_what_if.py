"""What would let a refused pod in: the least of each kind, and never what does not help."""

import random
from dataclasses import replace
from itertools import combinations

import pytest
from tests.core.explain.checks import change_faults
from tests.core.hosts import container, machine, pod, resources, settings
from tests.core.snapshots import gpus, helping, situation

from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.verdict import decide, verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.pod import Container, Pod
from numalign.core.what_if.host import refused_again, restarted
from numalign.core.what_if.search import Kind, freed_of

GPU = "example.com/gpu"


def texts(found, kind):
    return [change.text for change in found if change.kind is kind]


def test_fewer_cpus_are_the_most_that_fit():
    host = situation(settings("single-numa-node"), machine())
    found = helping(host, pod("a", container("app", 9, "1Gi")))
    assert texts(found, Kind.REQUEST) == ["let container app ask for 8 CPUs instead of 9 (1 less)"]
    assert found[0].edits == (("app", "cpu", "9", "8"),)


def test_whole_cores_are_reached_by_one_more_or_one_less():
    host = situation(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine())
    found = helping(host, pod("a", container("app", 3, "1Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container app ask for 2 CPUs instead of 3 (1 less)",
        "let container app ask for 4 CPUs instead of 3 (1 more)",
    ]
    assert "switch off the CPU manager's option full-pcpus-only" in texts(found, Kind.HOST)


def test_several_odd_containers_are_rounded_together():
    host = situation(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine())
    found = helping(host, pod("a", container("x", 1, "1Gi"), container("y", 3, "1Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container x ask for 2 CPUs instead of 1 (1 more), and "
        "let container y ask for 4 CPUs instead of 3 (1 more)"
    ]


def test_memory_is_lowered_to_what_a_node_has():
    host = situation(settings("single-numa-node"), machine(), pod("a", container("c", 1, "10Gi")))
    found = helping(host, pod("b", container("app", 1, "17Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container app ask for 16 GiB of memory instead of 17 GiB (1 GiB less)"
    ]


def test_in_pod_scope_there_is_room_left_for_the_other_containers():
    host = situation(settings("single-numa-node", scope="pod"), machine())
    found = helping(host, pod("a", container("x", 1, "10Gi"), container("y", 1, "7Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container x ask for 9 GiB of memory instead of 10 GiB (1 GiB less)",
        "let container y ask for 6 GiB of memory instead of 7 GiB (1 GiB less)",
    ]


def test_devices_that_nobody_has_can_only_be_left_out_or_repaired():
    host = situation(settings("none"), machine(), plugins={GPU: gpus(0, sick={0})})
    found = helping(host, pod("a", container("app", 1, "1Gi", gpu=1)))
    assert texts(found, Kind.REQUEST) == ["let container app ask for no example.com/gpu"]
    assert texts(found, Kind.REPAIR) == ["bring back 1 unhealthy device of example.com/gpu"]


def test_more_devices_may_be_what_restricted_wants():
    host = situation(settings("restricted", memory=False), machine(), plugins={GPU: gpus(0, 1)})
    found = helping(host, pod("a", container("app", 10, "1Gi", gpu=1)))
    assert "let container app ask for 2 example.com/gpu instead of 1" in texts(found, Kind.REQUEST)


def test_the_order_of_containers_can_be_enough():
    host = situation(settings("restricted", memory=False), machine(), plugins={GPU: gpus(0)})
    new = pod("new", container("x", 6, "1Gi"), container("y", 2, "1Gi", gpu=1))
    found = helping(host, new)
    assert texts(found, Kind.ORDER) == ["put the containers in the order y, x"]


def test_a_setting_that_needs_a_drain_is_named_where_the_pod_never_fits_otherwise():
    host = situation(settings("single-numa-node"), machine(), pod("a", container("c", 5, "1Gi")))
    found = helping(host, pod("b", container("x", 9, "1Gi")))
    drained = [change.text.split(" (")[0] for change in found if change.drained]
    assert drained == ["set cpuManagerPolicy: none"]


def test_a_setting_that_needs_a_drain_is_not_named_where_the_drain_alone_does_it():
    host = situation(settings("single-numa-node"), machine(1), pod("a", container("c", 5, "1Gi")))
    found = helping(host, pod("b", container("x", 6, "1Gi")))
    assert texts(found, Kind.LEAVE) == ["let default/a leave"]
    assert not any(change.drained for change in found)


def test_running_pods_that_a_changed_kubelet_would_refuse_are_found():
    on = situation(
        settings("best-effort", memory=False),
        machine(),
        pod("spread", container("c", 2, "1Gi", gpu=2)),
        pod("local", container("c", 2, "1Gi")),
        plugins={GPU: gpus(0, 1)},
    )
    changed = hosts.build(
        replace(on.host.settings, topology_policy="single-numa-node"), on.host.info
    )
    assert refused_again(changed, restarted(changed, on.state)) == ("default/spread",)


def test_a_state_of_another_policy_does_not_start():
    on = situation(settings(), machine(), pod("a", container("c", 2, "1Gi")))
    changed = hosts.build(replace(on.host.settings, memory_policy="None"), on.host.info)
    assert restarted(changed, on.state) is None


def test_a_pod_that_holds_something_else_is_created_again():
    on = situation(settings("restricted"), machine(), pod("a", container("c", 2, "1Gi")))
    found = helping(on, pod("a", container("c", 3, "1Gi")))
    assert texts(found, Kind.ANEW) == [
        "delete the pod and create it again: what it holds from before stands in its way"
    ]


def test_totals_are_helped_by_asking_for_less_or_by_pods_that_leave():
    full = Pod("a", "a", "x", (), (Container("c", resources("14"), {}),))
    new = Pod("b", "b", "x", (), (Container("c", resources("1500m"), {}),))
    found = helping(situation(settings(), machine(), full), new)
    assert texts(found, Kind.LEAVE) == ["let x/a leave"]
    assert texts(found, Kind.REQUEST)


def test_a_search_can_be_stopped_and_keeps_what_it_found():
    host = situation(settings("single-numa-node"), machine())
    seen = []

    def going(stage, runs):
        seen.append((stage, runs))
        return len(seen) < 3

    found = helping(host, pod("a", container("app", 9, "1Gi")), going=going)
    assert [change.kind for change in found] == [Kind.REQUEST]
    assert len(seen) == 3


# Pods that leave, against trying all sets of them.


def crowded(seed):
    """A host with about nine pods, and a pod that it refuses; None where it does not."""
    rng = random.Random(seed)
    policy = rng.choice(["single-numa-node", "restricted", "best-effort", "none"])
    scope = rng.choice(["container", "pod"])
    options = rng.choice([(), ("full-pcpus-only",), ("distribute-cpus-across-numa",)])
    plugins = {GPU: gpus(0, 1, 1)}
    found = situation(
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
