"""How early the kernel ends a container when memory runs out."""

import pytest
from tests.core.hosts import settings

from numalign.core.kubelet.cgroup_limits import hugepages_of, oom_score_adj
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity

GIB = 2**30
HOST = 4 * GIB


def amounts(**texts):
    return {name: Quantity.parse(text) for name, text in texts.items()}


def container(name="c", *, sidecar=False, limits=None, **requests):
    return Container(
        name, amounts(**requests), amounts(**(limits or {})), sidecar, is_restartable=sidecar
    )


def score(pod, found, memory=HOST):
    return oom_score_adj(pod, found, settings("best-effort"), memory)


def test_guaranteed_containers_go_last_and_those_that_ask_for_nothing_first():
    own = {"cpu": "1", "memory": "1Gi"}
    guaranteed = container(limits=own, **own)
    assert score(Pod("u", containers=(guaranteed,)), guaranteed) == -997
    nothing = container()
    assert score(Pod("u", containers=(nothing,)), nothing) == 1000


@pytest.mark.parametrize(
    ("memory", "wanted"),
    [("1Gi", 750), ("3Gi", 250), ("1Mi", 999), ("4Gi", 3), ("3.999Gi", 3), ("1", 999)],
)
def test_a_burstable_container_goes_later_the_more_it_asks_for(memory, wanted):
    found = container(memory=memory)
    assert score(Pod("u", containers=(found,)), found) == wanted


def test_a_sidecar_goes_no_earlier_than_the_smallest_app_container():
    side, small, large = (
        container("side", sidecar=True, memory="64Mi"),
        container("small", memory="1Gi"),
        container("large", memory="2Gi"),
    )
    pod = Pod("u", init_containers=(side,), containers=(small, large))
    assert score(pod, side) == score(pod, small) == 750


def test_every_page_size_of_the_host_has_a_limit():
    found = container(limits={"hugepages-2Mi": "4Mi"})
    assert hugepages_of(found, [2 * 2**20, GIB]) == {2 * 2**20: 4 * 2**20, GIB: 0}
