"""What the plugin answers, as a runtime sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.apps.nri.host import MIB, Runtime, container, new_state, policy, resources, sandbox

from numalign.apps.nri import events
from numalign.apps.nri.model import NriState
from numalign.apps.nri.step import step
from numalign.core.kubelet.host import start
from numalign.core.kubelet.state import Block
from numalign.core.views.podresources import (
    Allocatable,
    ContainerView,
    DeviceUse,
    PodView,
    View,
)
from numalign.wire.nri.values import MemoryMode, Resources


@pytest.fixture
def runtime():
    return Runtime(new_state())


def test_a_guaranteed_container_with_whole_cpus_gets_its_own(runtime):
    pod = sandbox("a")
    answer = runtime.create(pod, "db", 2000)
    assert answer.placing.cpus == "1,9"


def test_others_are_moved_off_in_the_same_answer(runtime):
    shared = sandbox("web", qos="burstable")
    runtime.start(shared)
    runtime.create(shared, "c", 100)
    assert runtime.cpus("web-c-0") == "0-15"
    answer = runtime.create(sandbox("a"), "db", 2000)
    assert [(one.container, one.cpus) for one in answer.updates] == [("web-c-0", "0,2-8,10-15")]


@pytest.mark.parametrize(("milli", "qos"), [(1500, ""), (2000, "burstable"), (0, "besteffort")])
def test_all_others_live_in_the_shared_pool(runtime, milli, qos):
    runtime.create(sandbox("a"), "db", 2000)
    assert runtime.create(sandbox("b", qos=qos), "c", milli).placing.cpus == "0,2-8,10-15"


def test_a_pod_that_no_kubelet_made_is_shared(runtime):
    pod = replace(sandbox("a"), cgroup_parent="/system.slice")
    assert runtime.create(pod, "c", 2000).placing.cpus == "0-15"


def test_what_is_held_is_saved_before_it_is_answered():
    state = new_state()
    pod = sandbox("a")
    event = events.ContainerCreating(pod, container(pod, "db", 2000), is_asked=True)
    kinds = [type(effect) for effect in step(state, event)[1]]
    assert kinds[:2] == [events.Save, events.AnswerPlaced]


def test_a_restarted_container_keeps_its_cpus_though_others_came(runtime):
    pod = sandbox("a")
    runtime.create(pod, "db", 2000)
    runtime.stop("a-db-0")
    assert runtime.create(sandbox("b"), "db", 2000).placing.cpus == "2,10"
    assert runtime.create(pod, "db", 2000, number=1).placing.cpus == "1,9"


def test_cpus_come_back_when_the_pod_stops_and_the_pool_is_told_at_the_next_answer(runtime):
    shared = sandbox("web", qos="burstable")
    runtime.create(shared, "c", 100)
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.end(pod)
    assert runtime.cpus("web-c-0") == "0,2-8,10-15"
    runtime.create(shared, "d", 100)
    assert runtime.cpus("web-c-0") == "0-15"


def test_a_pod_whose_sandbox_is_made_anew_gets_the_same_cpus(runtime):
    first, second = sandbox("a"), sandbox("b")
    for pod in (first, second):
        runtime.start(pod)
        runtime.create(pod, "db", 2000)
    runtime.event(events.PodStopped(first))
    runtime.event(events.PodStopped(second))
    assert runtime.create(replace(second, id="s-b2"), "db", 2000).placing.cpus == "2,10"


def test_a_new_sandbox_that_comes_before_the_old_one_goes_keeps_everything(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.event(events.PodStarted(replace(pod, id="s-a2")))
    runtime.event(events.PodStopped(pod))
    assert runtime.create(sandbox("b"), "db", 2000).placing.cpus == "2,10"


def test_a_refusal_says_what_was_asked_for_and_what_is_free_and_changes_nothing(runtime):
    before = runtime.state
    answer = runtime.create(sandbox("a", policy="single-numa-node"), "db", 10_000)
    assert isinstance(answer, events.AnswerRefused)
    assert answer.reason == "TopologyAffinityError"
    assert "container db of default/a" in answer.message
    assert "asks for 10 CPUs of its own" in answer.message
    assert "free CPUs by NUMA node 0: 7, 1: 8" in answer.message
    assert "policy single-numa-node, scope container" in answer.message
    assert runtime.state is before


def test_a_container_of_a_pod_that_is_refused_does_not_cost_the_others_theirs(runtime):
    pod = sandbox("a")
    runtime.create(pod, "one", 4000)
    assert isinstance(runtime.create(pod, "two", 14_000), events.AnswerRefused)
    assert runtime.state.host.cpu.entries["uid-a"].keys() == {"one"}
    runtime.create(sandbox("b"), "db", 2000)
    assert runtime.cpus("a-one-0") == "1-2,9-10"
    assert not runtime.overlaps()


def test_nothing_is_placed_before_the_runtime_has_told_what_runs():
    found = policy()
    runtime = Runtime(NriState(found, start(found.host)))
    answer = runtime.create(sandbox("a"), "db", 2000)
    assert isinstance(answer, events.AnswerRefused)
    assert answer.reason == "NotSynchronized"


# A pool that would run empty.


def test_the_container_that_would_empty_the_pool_is_refused():
    strict = 'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}'
    runtime = Runtime(new_state(policy(strict)))
    answer = runtime.create(sandbox("a"), "db", 15_000)
    assert isinstance(answer, events.AnswerRefused)
    assert answer.reason == "EmptySharedPool"
    assert runtime.create(sandbox("a"), "db", 14_000).placing.cpus


# Choices of pods.


def test_a_mixed_pod_has_exclusive_and_shared_containers(runtime):
    pod = sandbox("a", qos="burstable", exclusive="db")
    assert runtime.create(pod, "db", 2000).placing.cpus == "1,9"
    assert runtime.create(pod, "log", 2000).placing.cpus == "0,2-8,10-15"


def test_a_guaranteed_pod_can_stay_in_the_pool(runtime):
    assert runtime.create(sandbox("a", exclusive="none"), "db", 2000).placing.cpus == "0-15"


def test_policies_differ_from_pod_to_pod(runtime):
    assert isinstance(
        runtime.create(sandbox("a", policy="single-numa-node"), "db", 9000), events.AnswerRefused
    )
    assert not isinstance(runtime.create(sandbox("b"), "db", 9000), events.AnswerRefused)


def test_whole_cores_can_be_asked_for(runtime):
    answer = runtime.create(sandbox("a", full_cores="true"), "db", 3000)
    assert isinstance(answer, events.AnswerRefused)
    assert answer.reason == "SMTAlignmentError"
    assert runtime.create(sandbox("b", full_cores="true"), "db", 2000).placing.cpus == "1,9"


@pytest.mark.parametrize(
    ("annotations", "sentence"),
    [
        ({"policy": "strict"}, "numalign.io/policy: found 'strict', expected none or"),
        ({"polici": "none"}, "numalign.io/polici: unknown"),
        ({"scope": "node"}, "numalign.io/scope: found 'node'"),
        ({"policy": "none", "scope": "pod"}, "policy none has no scope"),
        ({"exclusive": "none", "full_cores": "true"}, "numalign.io/full-cores"),
        ({"exclusive": "none", "memory": "bind"}, "memory follows CPUs of its own"),
        ({"exclusive": "a,,b"}, "expected names of containers"),
        ({"exclusive": "db", "containers": "app/web:cpu=1"}, "found no container 'db'"),
        ({"memory": "fast"}, "numalign.io/memory: found 'fast'"),
        ({"full_cores": "yes"}, "numalign.io/full-cores: found 'yes'"),
        ({"containers": "db"}, "numalign.io/containers: found 'db'"),
        ({"containers": "app/db:cpu=4"}, "says 4 CPUs for container db, which is created with 2"),
    ],
)
def test_a_choice_that_cannot_be_followed_refuses_with_its_name(runtime, annotations, sentence):
    answer = runtime.create(sandbox("a", **annotations), "db", 2000)
    assert isinstance(answer, events.AnswerRefused)
    assert answer.reason == "InvalidAnnotation"
    assert sentence in answer.message


def test_a_chosen_container_must_ask_for_whole_cpus(runtime):
    answer = runtime.create(sandbox("a", exclusive="db"), "db", 1500)
    assert "asks for 1500m CPUs, expected a whole number" in answer.message


def test_only_namespaces_that_the_host_file_names_may_choose():
    runtime = Runtime(new_state(policy("numalign: {annotationNamespaces: [team-*]}")))
    answer = runtime.create(sandbox("a", policy="restricted"), "db", 2000)
    assert "pods of namespace default may not use it" in answer.message
    ours = replace(sandbox("b", policy="restricted"), namespace="team-a")
    assert runtime.create(ours, "db", 2000).placing.cpus == "1,9"


# Whole pods.


def test_a_declared_pod_is_decided_as_a_whole_at_its_first_container(runtime):
    pod = sandbox("a", containers="init/i:cpu=4;app/a:cpu=2;app/b:cpu=2")
    assert runtime.create(pod, "i", 4000).placing.cpus == "1-2,9-10"
    runtime.create(sandbox("b"), "thief", 2000)
    # The init container's CPUs go to those after it, as the kubelet does it.
    assert runtime.create(pod, "a", 2000).placing.cpus == "1,9"
    assert runtime.create(pod, "b", 2000).placing.cpus == "2,10"
    assert not runtime.overlaps()


def test_pod_scope_keeps_a_declared_pod_on_one_node(runtime):
    pod = sandbox("a", policy="single-numa-node", scope="pod", containers="app/a:cpu=5;app/b:cpu=3")
    runtime.create(pod, "a", 5000)
    answer = runtime.create(pod, "b", 3000)
    assert answer.placing.cpus.startswith(("4", "12", "5", "7", "15", "6"))
    nodes = {runtime.state.host.hints["uid-a"][name].nodes for name in ("a", "b")}
    assert nodes == {2}


def test_pod_scope_without_the_list_is_refused_for_pods_of_several_containers(runtime):
    pod = sandbox("a", policy="single-numa-node", scope="pod")
    whole = replace(pod, resources=resources(4000, 128 * MIB))
    answer = runtime.create(whole, "a", 2000)
    assert "needs the list of all containers in the annotation numalign.io/containers" in (
        answer.message
    )
    single = replace(pod, resources=resources(2000))
    assert runtime.create(single, "a", 2000).placing.cpus == "1,9"


def test_a_debugging_container_that_no_list_names_is_shared(runtime):
    pod = sandbox("a", containers="app/a:cpu=2")
    runtime.create(pod, "a", 2000)
    assert runtime.create(pod, "debugger", 0).placing.cpus == "0,2-8,10-15"


# Memory.

STATIC_MEMORY = """memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
"""


def test_memory_is_bound_to_the_nodes_of_its_blocks():
    runtime = Runtime(new_state(policy(STATIC_MEMORY)))
    assert runtime.create(sandbox("a"), "db", 2000).placing.mems == "0"
    assert runtime.create(sandbox("b"), "db", 1500).placing.mems == "0"
    assert not runtime.create(sandbox("c", qos="burstable"), "db", 100).placing.mems


def test_memory_follows_the_cpus_where_a_pod_asks_for_it(runtime):
    runtime.create(sandbox("a"), "db", 7000)
    answer = runtime.create(sandbox("b", memory="bind"), "db", 2000)
    assert answer.placing.mems == "1"
    assert answer.placing.memory_mode is None


def test_a_memory_policy_is_set_where_the_runtime_can_do_it(runtime):
    runtime.event(events.Connected((0, 12, 0)))
    answer = runtime.create(sandbox("a", memory="preferred"), "db", 2000)
    assert answer.placing.memory_mode is MemoryMode.PREFERRED
    assert (answer.placing.memory_nodes, answer.placing.mems) == ("0", "")


# Devices.


def test_cpus_follow_the_device_that_the_kubelet_gave(runtime):
    pod = sandbox("a", policy="single-numa-node")
    one = container(pod, "db", 2000)
    after, effects = step(runtime.state, events.ContainerCreating(pod, one))
    assert effects == [events.AskDevices()]
    assert after is runtime.state
    uses = (DeviceUse("v.com/gpu", "g0", 0), DeviceUse("v.com/gpu", "g1", 1))
    view = View(
        (PodView("a", "default", (), (ContainerView("db", (), (), uses[1:]),)),),
        Allocatable((), (), uses),
    )
    answer = runtime.event(events.ContainerCreating(pod, one, view, is_asked=True))
    assert answer.placing.cpus == "4,12"


def unanswered(pod, view=None):
    one = container(pod, "db", 2000)
    return events.ContainerCreating(pod, one, view, is_asked=True, is_unanswered=view is None)


def test_a_promise_about_devices_waits_for_the_kubelet_to_say_where_they_are(runtime):
    listed = View((PodView("a", "default", (), (ContainerView("db"),)),), Allocatable())
    pod = sandbox("a", containers="app/db:cpu=2,v.com/gpu=1")
    for view in (None, listed):
        answer = runtime.event(unanswered(pod, view))
        assert isinstance(answer, events.AnswerRefused)
        assert answer.reason == "DevicesUnknown"
    hard, soft = sandbox("b", policy="restricted"), sandbox("c")
    assert runtime.event(unanswered(hard)).reason == "DevicesUnknown"
    assert runtime.event(unanswered(soft)).placing.cpus == "1,9"


def test_nothing_is_placed_beside_a_kubelet_that_places_itself(runtime):
    block = Block((0,), "memory", MIB)
    for offered, named in (
        (Allocatable((1, 2)), "cpuManagerPolicy: static"),
        (Allocatable((), (block,)), "memoryManagerPolicy: Static"),
    ):
        answer = runtime.event(unanswered(sandbox("a"), View((), offered)))
        assert answer.reason == "KubeletPlaces"
        assert named in answer.message
        assert "Set cpuManagerPolicy: none" in answer.message
    assert runtime.event(unanswered(sandbox("a"), View())).placing.cpus == "1,9"


# Updates.


def test_a_shared_container_is_resized_within_the_pool(runtime):
    pod = sandbox("a", qos="burstable")
    runtime.create(pod, "c", 100)
    one = runtime.containers["a-c-0"]
    wish = Resources(shares=512, cpus="3")
    answer = runtime.event(events.ContainerUpdating(pod, one, wish))
    assert [(u.container, u.cpus) for u in answer.updates] == [("a-c-0", "0-15")]


@pytest.mark.parametrize("wish", [Resources(shares=4096), Resources(quota=300_000, period=100_000)])
def test_a_container_with_its_own_cpus_is_not_resized(runtime, wish):
    pod = sandbox("a")
    runtime.create(pod, "db", 2000)
    answer = runtime.event(events.ContainerUpdating(pod, runtime.containers["a-db-0"], wish))
    assert isinstance(answer, events.AnswerRefused)
    assert "holds CPUs 1,9 of its own" in answer.message


def test_an_update_cannot_take_a_container_off_its_cpus(runtime):
    pod = sandbox("a")
    runtime.create(pod, "db", 2000)
    wish = Resources(cpus="0-15")
    answer = runtime.event(events.ContainerUpdating(pod, runtime.containers["a-db-0"], wish))
    assert [(u.container, u.cpus) for u in answer.updates] == [("a-db-0", "1,9")]


def test_updates_go_unasked_only_to_runtimes_that_bear_it(runtime):
    shared = sandbox("web", qos="burstable")
    runtime.create(shared, "c", 100)
    pod = sandbox("a")
    runtime.create(pod, "db", 2000)
    for version, is_sent in (((0, 12, 0), False), ((0, 12, 1), True)):
        state, _ = step(runtime.state, events.Connected(version))
        effects = step(state, events.PodStopped(pod))[1]
        assert any(isinstance(one, events.SendUpdates) for one in effects) is is_sent


# The host file.


def test_a_new_host_file_moves_nobody_and_applies_to_the_next(runtime):
    pod = sandbox("a")
    runtime.create(pod, "db", 2000)
    runtime.event(events.HostFileChanged(policy('reservedSystemCPUs: "0,8"')))
    assert runtime.state.pending is None
    assert runtime.cpus("a-db-0") == "1,9"
    assert runtime.state.host.cpu.entries["uid-a"]["db"] == 1 << 1 | 1 << 9


def test_a_host_file_that_takes_cpus_away_waits_until_they_are_free(runtime):
    pod = sandbox("a")
    runtime.start(pod)
    runtime.create(pod, "db", 2000)
    runtime.event(events.HostFileChanged(policy('reservedSystemCPUs: "1"')))
    assert runtime.state.pending is not None
    assert runtime.cpus("a-db-0") == "1,9"
    runtime.end(pod)
    assert runtime.state.pending is None
    assert runtime.create(sandbox("b"), "db", 2000).placing.cpus == "0,8"


def test_drift_is_told_again_in_the_next_answer(runtime):
    shared = sandbox("web", qos="burstable")
    runtime.create(shared, "c", 100)
    runtime.event(events.DriftSeen(("web-c-0",)))
    answer = runtime.create(shared, "d", 100)
    assert [(u.container, u.cpus) for u in answer.updates] == [("web-c-0", "0-15")]
