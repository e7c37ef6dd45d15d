"""What the twin test compares is compared: each difference is seen. Needs no guest."""

import copy
import gzip
import json
import re
from dataclasses import replace

import pytest
from tests.paths import VECTORS
from tests.twin import compare, predict
from tests.twin.configurations import CONFIGURATIONS

from numalign.core.settings import Settings, Version
from numalign.wire.checkpoints import memory as memory_checkpoint

RECORD = VECTORS / "live" / "restricted-container-1.36.4.json.gz"
UIDS = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(1, 30)]
MEMORY = memory_checkpoint.FILE_NAME
SETTINGS = Settings(version=Version.V1_36, cpu_policy="static", memory_policy="Static")


@pytest.fixture(scope="module")
def steps():
    with gzip.open(RECORD, "rt") as stream:
        return [step for step in json.load(stream)["steps"] if "apply" in step]


@pytest.fixture
def admitted(steps):
    return copy.deepcopy(steps[0]["result"])


@pytest.fixture
def refused(steps):
    return copy.deepcopy(next(s["result"] for s in steps if s["result"]["phase"] == "Failed"))


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=lambda one: one.name)
def test_every_sequence_has_what_it_is_for(configuration):
    steps = configuration.steps
    assert len(steps) >= 40
    assert sum("restart" in step for step in steps) >= 2
    assert [key for step in steps for key in step if key in ("stop", "start")] == ["stop", "start"]
    text = json.dumps(steps)
    for word in ("initContainers", '"restartPolicy": "Always"', "hugepages-2Mi", "vendor.com/gpu"):
        assert word in text
    there = set()
    for step in steps:
        if "apply" in step:
            there.add(step["apply"]["metadata"]["name"])
        if "delete" in step:
            there.remove(step["delete"])  # it was there
    assert steps == configuration.steps  # the same every time


def test_the_issue_is_covered():
    assert len(CONFIGURATIONS) >= 6
    assert sum("1.37.1" in one.versions for one in CONFIGURATIONS.values()) == 3
    assert {one.topology for one in CONFIGURATIONS.values()} == {
        "two-sockets",
        "four-nodes",
        "memory-node",
    }


def test_equal_results_do_not_differ(admitted, refused):
    for one in (admitted, refused):
        same = copy.deepcopy(one)
        assert not list(compare.decision_differences(one, same))
        assert not list(compare.file_differences(one, same, UIDS, SETTINGS))
        assert not list(compare.cgroup_differences(one, same))


def test_another_decision_or_other_words_are_seen(admitted, refused):
    assert list(compare.decision_differences(admitted, refused))
    assert list(compare.decision_differences(refused, {**refused, "message": "other"}))
    assert list(compare.decision_differences(refused, {**refused, "reason": "OutOfcpu"}))


def test_totals_are_told_in_other_words_of_static_pods(refused):
    theirs = {
        **refused,
        "reason": "UnexpectedAdmissionError",
        "message": "... no set of running pods found to reclaim resources: [(res: cpu, q: 1), ]",
    }
    for reason, count in (("OutOfcpu", 0), ("OutOfmemory", 1)):
        ours = {**refused, "reason": reason, "message": "Node didn't have enough resource"}
        assert len(list(compare.decision_differences(theirs, ours))) == count


@pytest.mark.parametrize(
    "name", ["cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"]
)
def test_other_files_are_seen(admitted, steps, name):
    other = next(s["result"][name] for s in reversed(steps) if s["result"][name] != admitted[name])
    changed = {**admitted, name: other}
    [found] = compare.file_differences(admitted, changed, UIDS, SETTINGS)
    assert name in found
    if name == "kubelet_internal_checkpoint":  # devices of pods that are gone do not count
        assert not list(compare.file_differences(admitted, changed, (), SETTINGS))


def test_only_the_order_of_a_containers_memory_blocks_may_differ(steps):
    [theirs] = [s["result"] for s in steps if s["result"]["phase"] == "Running"][5:6]
    blocks = re.search(r'\[({"numaAffinity":[^}]*}),({"numaAffinity":[^}]*})\]', theirs[MEMORY])
    settled = memory_checkpoint.decode(theirs[MEMORY].encode(), SETTINGS)
    turned = {
        uid: {name: tuple(reversed(found)) for name, found in containers.items()}
        for uid, containers in settled.entries.items()
    }
    for entries, count in ((turned, 0), ({}, 1)):
        state = replace(settled, entries=entries)
        ours = {**theirs, MEMORY: memory_checkpoint.encode(state, SETTINGS).decode()}
        assert blocks is not None and ours[MEMORY] != theirs[MEMORY]
        assert len(list(compare.file_differences(theirs, ours, UIDS, SETTINGS))) == count


def test_another_cgroup_value_is_seen_and_an_empty_pool_is_not(admitted):
    ours = copy.deepcopy(admitted)
    ours["cgroups"]["c"]["cpu.weight"] = "1"
    [found] = compare.cgroup_differences(admitted, ours)
    assert "cgroup of c: cpu.weight: agent '1'" in found
    ours = copy.deepcopy(admitted)
    theirs = copy.deepcopy(admitted)
    theirs["cgroups"]["c"]["cpuset.cpus"] = ""
    assert not list(compare.cgroup_differences(theirs, ours))
    del ours["cgroups"]["c"]
    assert list(compare.cgroup_differences(theirs, ours))


def test_answers_of_podresources_are_compared_without_order_and_host_names():
    def view(name, cpus):
        return {"pods": [{"name": name, "cpus": cpus}, {"name": "b"}], "allocatable": {}}

    assert not list(compare.view_differences(view("a-worker-1", [1, 2]), view("a", [2, 1])))
    assert list(compare.view_differences(view("a", [1, 2]), view("a", [1, 3])))


def answer(**changes):
    container = {"name": "c", "cpus": "4-7", "memoryNodes": [1], "devices": {}, **changes}
    return {"admitted": True, "containers": [container]}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, None),
        ({"cpus": "0-3"}, "CPUs"),
        ({"memoryNodes": [0]}, "memory nodes"),
        ({"devices": {"vendor.com/gpu": ["g0"]}}, "devices"),
    ],
)
def test_a_wrong_prediction_is_seen(admitted, steps, changes, word):
    uid = steps[0]["apply"]["metadata"]["uid"]
    found = list(predict.mispredictions(answer(**changes), admitted, uid, SETTINGS))
    assert [text for text in found if word and word in text] == found
    assert bool(found) == (word is not None)


def test_a_wrong_verdict_is_seen(admitted, refused):
    no = {"admitted": False, "reason": refused["reason"], "message": "x"}
    assert list(predict.mispredictions(no, admitted, "u", SETTINGS))
    assert list(predict.mispredictions(no, refused, "u", SETTINGS))
    assert list(predict.mispredictions(answer(), refused, "u", SETTINGS))
    right = {**no, "message": refused["message"].removeprefix(predict.REJECTED)}
    assert not list(predict.mispredictions(right, refused, "u", SETTINGS))
