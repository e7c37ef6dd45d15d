"""Changes of the pod: other requests, another order, no more than is needed."""

from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import gpus, helping, snapshot

from numalign.core.what_if.search import Kind

GPU = "example.com/gpu"


def texts(found, kind):
    return [change.text for change in found if change.kind is kind]


def test_fewer_cpus_are_the_most_that_fit():
    host = snapshot(settings("single-numa-node"), machine())
    found = helping(host, pod("a", container("app", 9, "1Gi")))
    assert texts(found, Kind.REQUEST) == ["let container app ask for 8 CPUs instead of 9 (1 less)"]
    assert found[0].edits == (("app", "cpu", "9", "8"),)


def test_whole_cores_are_reached_by_one_more_or_one_less():
    host = snapshot(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine())
    found = helping(host, pod("a", container("app", 3, "1Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container app ask for 2 CPUs instead of 3 (1 less)",
        "let container app ask for 4 CPUs instead of 3 (1 more)",
    ]
    option = "switch off the CPU manager's option full-pcpus-only"
    assert f"{option} (restart the kubelet)" in texts(found, Kind.HOST)


def test_several_odd_containers_are_rounded_together():
    host = snapshot(settings("none", cpu_options=("full-pcpus-only",), reserved="0-1"), machine())
    found = helping(host, pod("a", container("x", 1, "1Gi"), container("y", 3, "1Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container x ask for 2 CPUs instead of 1 (1 more), and "
        "let container y ask for 4 CPUs instead of 3 (1 more)"
    ]


def test_memory_is_lowered_to_what_a_node_has():
    host = snapshot(settings("single-numa-node"), machine(), pod("a", container("c", 1, "10Gi")))
    found = helping(host, pod("b", container("app", 1, "17Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container app ask for 16 GiB of memory instead of 17 GiB (1 GiB less)"
    ]


def test_in_pod_scope_there_is_room_left_for_the_other_containers():
    host = snapshot(settings("single-numa-node", scope="pod"), machine())
    found = helping(host, pod("a", container("x", 1, "10Gi"), container("y", 1, "7Gi")))
    assert texts(found, Kind.REQUEST) == [
        "let container x ask for 9 GiB of memory instead of 10 GiB (1 GiB less)",
        "let container y ask for 6 GiB of memory instead of 7 GiB (1 GiB less)",
    ]


def test_more_devices_may_be_what_restricted_wants():
    host = snapshot(settings("restricted", memory=False), machine(), plugins={GPU: gpus(0, 1)})
    found = helping(host, pod("a", container("app", 10, "1Gi", gpu=1)))
    assert "let container app ask for 2 example.com/gpu instead of 1" in texts(found, Kind.REQUEST)


def test_the_order_of_containers_can_be_enough():
    host = snapshot(settings("restricted", memory=False), machine(), plugins={GPU: gpus(0)})
    new = pod("new", container("x", 6, "1Gi"), container("y", 2, "1Gi", gpu=1))
    found = helping(host, new)
    assert texts(found, Kind.ORDER) == ["put the containers in the order y, x"]
