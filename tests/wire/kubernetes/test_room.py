"""Budgets, groups, nominations and evictions as the API server has them."""

import json

import pytest

from numalign.core.cluster.between_pods.gangs import GroupMinimum
from numalign.core.cluster.between_pods.victims import Budget
from numalign.core.cluster.scheduling.constraints import Requirement
from numalign.core.errors import WireError
from numalign.core.pod import Pod
from numalign.wire.kubernetes import room

POD = Pod("u", "p", "ns")


def budget(allowed, *, seen=2, **spec):
    found = {
        "metadata": {"name": "b", "namespace": "ns", "generation": 2},
        "spec": spec,
        "status": {"disruptionsAllowed": allowed, "observedGeneration": seen},
    }
    return room.budget_from_json(json.dumps(found).encode())


def test_a_budget_with_its_selector():
    selector = {"matchLabels": {"app": "db"}}
    assert budget(3, selector=selector) == Budget(
        "ns/b", "ns", (Requirement("app", "In", ("db",)),), 3
    )
    assert budget(1, selector={}).selector == ()
    assert budget(1).selector is None


def test_a_budget_that_its_controller_has_yet_to_look_at_allows_none():
    assert budget(3, seen=1, selector={}).allowed == 0


def group(policy):
    found = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"schedulingPolicy": policy}}
    return room.group_from_json(json.dumps(found).encode())


def test_a_group_says_how_many_and_the_basic_policy_asks_for_no_company():
    assert group({"gang": {"minCount": 4}}) == GroupMinimum("ns/g", 4)
    assert group({"basic": {}}) == GroupMinimum("ns/g", 1)


def test_what_is_no_budget_is_told():
    with pytest.raises(WireError, match=r"found no v1\.PodDisruptionBudget"):
        room.budget_from_json(b'{"status": {"disruptionsAllowed": "many"}}')


def test_nominations_and_evictions_name_the_pod_by_its_uid():
    assert room.nominated(POD, "w1") == {
        "metadata": {"uid": "u"},
        "status": {"nominatedNodeName": "w1"},
    }
    assert room.nominated(POD, "")["status"] == {"nominatedNodeName": None}
    found = room.eviction(POD)
    assert found["deleteOptions"] == {"preconditions": {"uid": "u"}}
    assert found["metadata"] == {"namespace": "ns", "name": "p"}
