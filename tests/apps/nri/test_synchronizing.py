"""After a gap, what is held and what runs are the same again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.apps.nri.host import MIB, Runtime, new_state, policy, sandbox

from numalign.apps.nri import events, saved
from numalign.core.errors import CorruptCheckpointError
from numalign.core.kubelet.state_checks import law_breaches
from numalign.core.values.sets import parse_list

STATIC_MEMORY = """memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
"""


@pytest.fixture
def runtime():
    return Runtime(new_state(policy(STATIC_MEMORY)))


def held(runtime):
    return {
        (uid, name): cpus
        for uid, names in runtime.state.host.cpu.entries.items()
        for name, cpus in names.items()
    }


@pytest.mark.parametrize("without_file", [False, True])
def test_running_containers_keep_their_cpus_and_memory_over_a_restart(runtime, without_file):
    for name in ("a", "b", "c"):
        pod = sandbox(name)
        runtime.start(pod)
        runtime.create(pod, "db", 2000)
    before, memory = held(runtime), runtime.state.host.memory
    runtime.restart(without_file=without_file)
    assert held(runtime) == before
    assert runtime.state.host.memory.entries == memory.entries
    assert runtime.state.host.memory.machine == memory.machine
    assert runtime.create(sandbox("d"), "db", 2000).placing.cpus == "4,12"


def test_a_pod_that_went_while_we_were_away_is_released(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    del runtime.pods[pod.id], runtime.containers["a-db-0"]
    runtime.restart()
    assert held(runtime) == {}
    assert runtime.create(sandbox("b"), "db", 2000).placing.cpus == "1,9"


def test_a_crash_looping_container_keeps_its_cpus_even_without_the_file(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.stop("a-db-0")
    runtime.restart(without_file=True)
    assert runtime.create(sandbox("b"), "db", 2000).placing.cpus == "2,10"


def test_a_pod_that_has_stopped_holds_nothing_though_the_runtime_still_lists_it(runtime):
    live = sandbox("b")
    runtime.start(live)
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.stop("a-db-0")
    runtime.pods[pod.id] = replace(pod, pid=0)
    runtime.restart(without_file=True)
    assert held(runtime) == {}


def test_a_container_that_was_created_meanwhile_is_placed_and_others_move(runtime):
    shared, own = sandbox("web", qos="burstable"), sandbox("a")
    runtime.start(shared)
    runtime.start(own)
    runtime.create(shared, "c", 100)
    runtime.crash_after = 0
    runtime.create(own, "db", 2000)
    runtime.restart()
    assert runtime.cpus("a-db-0") == "1,9"
    assert runtime.cpus("web-c-0") == "0,2-8,10-15"


def test_what_cannot_be_placed_any_more_runs_shared_and_is_told(runtime):
    runtime.start(sandbox("a"))
    runtime.crash_after = 0
    runtime.create(sandbox("a"), "db", 30_000)
    runtime.crash_after = None
    pods, containers = tuple(runtime.pods.values()), tuple(runtime.containers.values())
    effects_before = runtime.state
    runtime.event(events.Synchronized(pods, containers))
    assert runtime.state.unplaced == {("uid-a", "db")}
    assert runtime.cpus("a-db-0") == "0-15"
    assert effects_before.unplaced == frozenset()


@pytest.mark.parametrize("without_file", [False, True])
def test_memory_of_a_container_in_the_pool_is_kept_too(runtime, without_file):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "c", 1500)
    before = runtime.state.host.memory
    assert before.entries["uid-a"]["c"]
    runtime.restart(without_file=without_file)
    assert runtime.state.host.memory == before


def test_memory_is_placed_for_who_was_created_meanwhile(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.crash_after = 0
    runtime.create(pod, "c", 1500)
    runtime.restart()
    assert runtime.containers["a-c-0"].resources.mems == "0"


def test_who_has_its_cpus_but_memory_everywhere_keeps_the_cpus(runtime):
    for name in ("a", "b"):
        pod = sandbox(name)
        runtime.start(pod)
        runtime.create(pod, "db", 2000)
    runtime._move("b-db-0", "2,10", "0-1")
    runtime.restart(without_file=True)
    assert runtime.cpus("b-db-0") == "2,10"
    assert runtime.containers["b-db-0"].resources.mems == "0"


def test_two_containers_that_claim_the_same_cpus_do_not_both_get_them(runtime):
    for name in ("a", "b"):
        pod = sandbox(name)
        runtime.start(pod)
        runtime.create(pod, "db", 2000)
    runtime._move("b-db-0", "1,9", "")
    runtime.restart(without_file=True)
    assert not runtime.overlaps()
    assert {runtime.cpus("a-db-0"), runtime.cpus("b-db-0")} == {"1,9", "2,10"}


def test_a_container_that_somebody_moved_is_put_back(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime._move("a-db-0", "0-15", "0-1")
    runtime.restart()
    assert runtime.cpus("a-db-0") == "1,9"
    assert runtime.containers["a-db-0"].resources.mems == "0"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-5],
        lambda data: b"",
        lambda data: data.replace(b'"1,9"', b'"1,8"'),
        lambda data: data.replace(b'"version":2', b'"version":9'),
        lambda data: b"\xff" + data,
        lambda data: data.replace(b'"number":2', b'"number":3'),
    ],
)
def test_a_damaged_file_is_told_and_not_believed(runtime, change):
    runtime.create(sandbox("a"), "db", 2000)
    newer = saved.load(runtime.disk, runtime.state.policy.host)
    assert (newer.number, newer.fault) == (2, "")
    before, after = runtime.disk[1], change(runtime.disk[0])
    older = saved.load((after, before), runtime.state.policy.host)
    assert (older.number, bool(older.fault)) == (1, bool(after))
    with pytest.raises(CorruptCheckpointError, match="nri_state"):
        saved.load((after, before[:-5]), runtime.state.policy.host)


def test_a_torn_copy_costs_what_runs_nothing(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.disk[runtime.number % 2] = b"torn"
    runtime.restart()
    assert runtime.cpus("a-db-0") == "1,9"
    thief = runtime.create(sandbox("b"), "db", 2000)
    assert thief.placing.cpus == "2,10"


def test_a_file_that_does_not_fit_the_host_file_any_more_is_not_believed(runtime):
    runtime.create(sandbox("a"), "db", 2000)
    other = policy('reservedSystemCPUs: "1"').host
    with pytest.raises(CorruptCheckpointError, match="CPUs 1 are held, and reserved"):
        saved.load(runtime.disk, other)


@pytest.mark.parametrize("seed", range(40))
def test_no_cpu_is_lost_or_given_twice_wherever_we_crash(seed):
    """Pods come and go, containers restart; the plugin dies after any effect, or loses its file."""
    rng = random.Random(seed)
    runtime = Runtime(new_state(policy(rng.choice(("", STATIC_MEMORY)))))
    number = 0
    for _ in range(60):
        alive = list(runtime.pods.values())
        action = rng.random()
        runtime.crash_after = rng.randrange(4) if rng.random() < 0.2 else None
        is_crash = runtime.crash_after is not None
        before = dict(held(runtime))
        if action < 0.45 or not alive:
            number += 1
            qos = rng.choice(("", "", "", "burstable", "besteffort"))
            pod = sandbox(f"p{number}", qos=qos)
            runtime.pods[pod.id] = pod
            runtime.create(pod, "c", rng.choice((500, 1000, 2000, 3000)), memory=16 * MIB)
        elif action < 0.7:
            pod = rng.choice(alive)
            is_crash = False
            runtime.crash_after = None
            runtime.end(pod)
            before = {}
        elif runtime.containers:
            identity = rng.choice(list(runtime.containers))
            one = runtime.containers[identity]
            runtime.crash_after = None
            runtime.stop(identity)
            is_crash = False
            pod = runtime.pods[one.sandbox]
            milli = one.resources.quota // 100
            answer = runtime.create(pod, "c", milli, number=rng.randrange(1 << 30), memory=16 * MIB)
            assert not isinstance(answer, events.AnswerRefused), "it holds what it asks for"
            del runtime.containers[identity]
        if is_crash or rng.random() < 0.1:
            runtime.restart(without_file=rng.random() < 0.3)
            # Whoever had CPUs of his own and still runs has the same ones.
            for (uid, _), cpus in before.items():
                assert held(runtime).get((uid, "c")) == cpus
        assert list(law_breaches(runtime.state.policy.host, runtime.state.host)) == []
        assert runtime.overlaps() == []
        for (uid, name), cpus in held(runtime).items():
            one = next(
                c for i, c in runtime.containers.items() if i.startswith(f"{uid[4:]}-{name}")
            )
            assert parse_list(one.resources.cpus) == cpus, "the runtime does what we say"
