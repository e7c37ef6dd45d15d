"""A real, unchanged kubelet with containerd and our plugin, on a kernel with four NUMA nodes."""

import os

import pytest
from tests.real.kept import MissingError, say
from tests.twin.configurations import CONFIGURATIONS
from tests.twin.nri.run import compared, nri_worker
from tests.twin.sequences import GPU, container, pod, with_devices

pytestmark = pytest.mark.e2e_numa


@pytest.fixture(scope="module")
def worker():
    if os.geteuid() != 0:
        pytest.skip("the guest reads this host's files as root")
    try:
        with nri_worker(CONFIGURATIONS["restricted-container"]) as found:
            yield found
    except MissingError as error:
        pytest.skip(str(error))


def applied(worker, number, containers, **annotations):
    return worker.apply(pod(number, containers)["apply"], **annotations)


def cpus(result, name="c"):
    return result["cgroups"][name]["cpuset.cpus"]


def test_pods_are_pinned_refused_and_kept_over_restarts_of_everything(worker):
    shared = applied(worker, 1, [container("c", "100m", "16Mi", is_burstable=True)])
    assert cpus(shared) == "0-15"
    own = applied(worker, 2, [container("c", "2", "32Mi")])
    assert cpus(own) == "2-3"
    assert own["cgroups"]["c"]["cpuset.mems"] == "0"
    pages = worker.call("pages_of", worker.uids["p2"])
    assert pages == {"c": [0]}, "pages lie where cpuset.mems says"
    assert cpus(worker.call("settled", worker.uids["p1"], "p1")) == "0-1,4-15"

    # A policy of its own: five CPUs are on no single node of four.
    strict = applied(worker, 3, [container("c", "5", "16Mi")], policy="single-numa-node")
    assert "TopologyAffinityError" in strict["refused"]
    worker.delete("p3")
    loose = applied(worker, 4, [container("c", "5", "16Mi")], policy="best-effort")
    assert not loose["refused"]
    worker.delete("p4")

    # CPUs follow the device.
    gpu = applied(worker, 5, [with_devices(container("c", "1", "16Mi"), GPU, 1)])
    if "DevicesUnknown" in gpu["refused"]:  # an emulated kubelet may need longer than it has
        worker.call("started", worker.uids["p5"], "p5")
        gpu = worker.call("settled", worker.uids["p5"], "p5")
    assert not gpu["refused"]
    node = gpu["cgroups"]["c"]["cpuset.mems"]
    assert int(cpus(gpu)) // 4 == int(node)
    worker.delete("p5")

    # What is refused starts by itself when another leaves.
    worker.delete("p1")  # else the kubelet's own totals refuse the last one
    for number, count in ((6, "4"), (7, "4"), (8, "2")):
        assert not applied(worker, number, [container("c", count, "16Mi")])["refused"]
    late = applied(worker, 9, [container("c", "3", "16Mi")])
    assert "numalign: " in late["refused"]
    worker.delete("p7")
    started = worker.call("started", worker.uids["p9"], "p9")
    say(f"a refused pod ran {started['seconds']:.0f} s after another one left")
    kept = {name: cpus(worker.call("settled", worker.uids[name], name)) for name in worker.uids}

    # Everything is killed in turn; nobody loses anything.
    worker.worker.call("stop_kubelet")
    worker.worker.start_kubelet()
    worker.call("restart_containerd", str(worker.worker.files))
    worker.call("stop")
    worker.start_plugin()
    for name, before in kept.items():
        assert cpus(worker.call("settled", worker.uids[name], name)) == before


@pytest.mark.parametrize("name", ["restricted-container", "single-pod"])
def test_the_plugin_places_as_the_kubelets_own_managers_do(name):
    if os.geteuid() != 0:
        pytest.skip("the guest reads this host's files as root")
    try:
        rows = compared(name)
    except MissingError as error:
        pytest.skip(str(error))
    assert [row for row in rows if not row.is_same] == []
