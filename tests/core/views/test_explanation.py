"""An explanation as plain values."""

from tests.core.hosts import GI, container, machine, pod, settings
from tests.core.snapshots import gpus, helping, snapshot, why

from numalign.core.explain.explain import asked
from numalign.core.views.explanation import as_data, change_data, map_data

GPU = "example.com/gpu"
BUSY = pod("a", container("c", 3, "1Gi", gpu=1))


def on(policy="single-numa-node"):
    return snapshot(settings(policy), machine(), BUSY, plugins={GPU: gpus(0, 1, sick={1})})


def test_a_refusal_names_its_resources_and_what_each_node_has():
    found = as_data(why(on(), pod("p", container("c", 9, "1Gi"))))
    assert found["admitted"] is False
    assert found["resources"] == ["cpu"]
    assert found["demands"][0]["nodes"] == [
        {"nodes": [0], "free": 4, "whenEmpty": 7},
        {"nodes": [1], "free": 8, "whenEmpty": 8},
    ]


def test_hints_are_words():
    found = as_data(why(on(), pod("p", container("c", 2, "1Gi"))))["hints"]
    assert found["rows"][0] == {"nodes": [0], "hints": ["preferred", "preferred"]}
    assert found["rows"][2] == {"nodes": [0, 1], "hints": ["possible", None]}


def test_the_map_tells_the_pods_own_from_what_others_have():
    first, second = map_data(asked(on(), pod("p", container("c", 2, "1Gi"))))
    assert (first["pod"], first["others"], first["reserved"]) == ("4-5", "1-3", "0")
    assert first["memory"][0]["freeBytes"] == 13 * GI
    assert first["devices"] == [
        {"resource": GPU, "count": 1, "pod": 0, "others": 1, "unhealthy": 0}
    ]
    assert second["devices"][0]["unhealthy"] == 1


def test_a_change_lists_its_edits():
    [first, *_] = helping(on(), pod("p", container("c", 9, "1Gi")))
    assert change_data(first)["edits"] == [
        {"container": "c", "resource": "cpu", "from": "9", "to": "8"}
    ]
