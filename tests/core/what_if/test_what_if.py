"""What would let a refused pod in: the least of each kind, and never what does not help."""

from tests.core.hosts import container, machine, pod, resources, settings
from tests.core.snapshots import gpus, helping, snapshot

from numalign.core.pod import Container, Pod
from numalign.core.what_if.search import Kind

GPU = "example.com/gpu"


def texts(found, kind):
    return [change.text for change in found if change.kind is kind]


def test_devices_that_nobody_has_can_only_be_left_out_or_repaired():
    host = snapshot(settings("none"), machine(), plugins={GPU: gpus(0, sick={0})})
    found = helping(host, pod("a", container("app", 1, "1Gi", gpu=1)))
    assert texts(found, Kind.REQUEST) == ["let container app ask for no example.com/gpu"]
    assert texts(found, Kind.REPAIR) == ["bring back 1 unhealthy device of example.com/gpu"]


def test_a_pod_that_holds_something_else_is_created_again():
    on = snapshot(settings("restricted"), machine(), pod("a", container("c", 2, "1Gi")))
    found = helping(on, pod("a", container("c", 3, "1Gi")))
    assert texts(found, Kind.RECREATE) == [
        "delete the pod and create it again: what it holds from before stands in its way"
    ]


def test_totals_are_helped_by_asking_for_less_or_by_pods_that_leave():
    full = Pod("a", "a", "x", (), (Container("c", resources("14"), {}),))
    new = Pod("b", "b", "x", (), (Container("c", resources("1500m"), {}),))
    found = helping(snapshot(settings(), machine(), full), new)
    assert texts(found, Kind.LEAVE) == ["delete or move x/a"]
    assert texts(found, Kind.REQUEST)


def test_a_search_can_be_stopped_and_keeps_what_it_found():
    host = snapshot(settings("single-numa-node"), machine())
    seen = []

    def going(stage, runs):
        seen.append((stage, runs))
        return len(seen) < 3

    found = helping(host, pod("a", container("app", 9, "1Gi")), going=going)
    assert [change.kind for change in found] == [Kind.REQUEST]
    assert len(seen) == 3
