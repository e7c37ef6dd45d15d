"""What a pod needs in the words of a scheduler."""

from tests.core.cluster.nrt_match.amounts import amounts, app, need

from numalign.core.cluster.nrt_match.need import (
    Why,
    is_affine,
    is_host_level,
    need_of,
    offered,
    whole,
)
from numalign.core.pod import Container, Pod, Qos
from numalign.core.values.quantity import Quantity


def test_names_that_a_scheduler_never_counts_are_never_offered():
    names = ["gpu", "storage", "requests.cpu", "a.kubernetes.io/x", "vendor.com/gpu", "-/x"]
    assert offered(names) == {
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "a.kubernetes.io/x",
        "vendor.com/gpu",
    }


def test_the_total_of_a_pod_counts_sidecars_as_init_containers_and_adds_overhead():
    def container(name, cpu, **kind):
        return Container(name, {"cpu": Quantity.parse(cpu)}, {}, **kind)

    pod = Pod(
        "u",
        init_containers=(
            container("a", "3", is_init=True),
            container("b", "5", is_init=True, is_restartable=True),
        ),
        containers=(container("c", "2"), container("d", "2")),
        overhead={"cpu": Quantity.parse("250m")},
    )
    found = need_of(pod)
    assert found.total == amounts(cpu="5250m")
    assert [ask.why for ask in found.asks] == [
        Why.INIT_CONTAINER,
        Why.SIDECAR,
        Why.CONTAINER,
        Why.CONTAINER,
    ]


def test_parts_are_rounded_up_to_whole_units():
    assert [whole(nanos) for nanos in (0, 1, 10**9, 10**9 + 1)] == [0, 1, 1, 2]


def test_only_what_asks_for_nothing_special_passes_anywhere():
    assert need(app(), qos=Qos.BEST_EFFORT).passes_anywhere
    assert not need(app(gpu=1), qos=Qos.BEST_EFFORT).passes_anywhere
    assert not need(app(cpu=1)).passes_anywhere


def test_cpus_and_memory_belong_to_nodes_and_devices_may_belong_to_the_host():
    assert [is_affine(n) for n in ("cpu", "hugepages-2Mi", "x.com/gpu")] == [True, True, False]
    assert [is_host_level(n) for n in ("storage", "x.com/gpu", "cpu")] == [True, True, False]


def test_pods_that_need_the_same_have_the_same_key():
    assert need(app(cpu=1, memory="1Gi")).key == need(app(memory="1Gi", cpu=1)).key
    assert need(app(cpu=1)).key != need(app(cpu=1), qos=Qos.BURSTABLE).key
