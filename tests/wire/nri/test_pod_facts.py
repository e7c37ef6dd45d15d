"""What the runtime's numbers say of a pod."""

from __future__ import annotations

import pytest

from numalign.core.errors import WireError
from numalign.core.pod import Qos
from numalign.core.values.quantity import Quantity
from numalign.wire.nri import messages, pod_facts
from numalign.wire.nri.values import EVENT_MASK, Resources


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/poda-b", Qos.GUARANTEED),
        ("/kubepods/burstable/poda-b", Qos.BURSTABLE),
        ("/kubepods/besteffort/poda-b", Qos.BEST_EFFORT),
        ("/numa-test/kubepods/burstable/pod1", Qos.BURSTABLE),
        ("kubepods-pod1_2.slice", Qos.GUARANTEED),
        ("kubepods-burstable-pod1_2.slice", Qos.BURSTABLE),
        ("kubepods-besteffort-pod1_2.slice", Qos.BEST_EFFORT),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice", Qos.GUARANTEED),
        ("/system.slice", None),
        ("", None),
    ],
)
def test_the_class_follows_from_the_parent_cgroup_of_both_drivers(parent, qos):
    assert pod_facts.qos_of(parent) is qos


@pytest.mark.parametrize("milli", [1, 10, 500, 999, 1000, 1001, 1500, 2000, 64_000])
def test_shares_and_quota_give_back_the_thousandths_of_the_request(milli):
    shares = milli * 1024 // 1000
    if shares > 2:
        found = Resources(shares=shares)
        assert pod_facts.requests_of(found)["cpu"] == Quantity.of_milli(milli)
    limited = Resources(quota=max(1000, milli * 100), period=100_000)
    assert pod_facts.cpu_limit_milli(limited) == max(10, milli)


def test_limits_of_memory_and_huge_pages_are_requests_too():
    found = Resources(memory_limit=1 << 30, hugepages={"2MB": 4 << 20, "1GB": 1 << 30})
    requests = pod_facts.requests_of(found)
    assert {name: amount.value() for name, amount in requests.items()} == {
        "memory": 1 << 30,
        "hugepages-2Mi": 4 << 20,
        "hugepages-1Gi": 1 << 30,
    }


def test_a_declared_pod_has_its_containers_in_order_with_their_kinds():
    found = pod_facts.declared("init/setup:cpu=2;sidecar/log:cpu=100m;app/db:cpu=2,memory=1Gi")
    assert [c.name for c in found.init_containers] == ["setup", "log"]
    assert [c.is_restartable for c in found.init_containers] == [False, True]
    assert found.containers[0].requests["memory"].value() == 1 << 30


def test_a_declared_pod_may_ask_for_nothing():
    assert pod_facts.declared("app/web:").containers[0].requests == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("db:cpu=2", "expected KIND/NAME"),
        ("other/db:cpu=2", "expected KIND/NAME"),
        ("app/db:cpu", "expected KIND/NAME"),
        ("app/db:cpu=two", "cpu of container db"),
        ("app/db:cpu=1;app/db:cpu=1", "'db' twice"),
        ("app/db:" + "x" * 70_000, "65536 at most"),
    ],
)
def test_a_declaration_that_cannot_be_read_says_what_is_wrong(text, error):
    with pytest.raises(WireError, match=error):
        pod_facts.declared(text)


def test_only_events_that_every_runtime_knows_are_asked_for():
    assert EVENT_MASK & ~0x7FF == 0


@pytest.mark.parametrize(
    ("text", "version"),
    [("v0.12.1", (0, 12, 1)), ("0.8", (0, 8, 0)), ("", ()), ("new", ()), ("0.12.1-rc", (0, 12, 1))],
)
def test_versions_compare_by_number(text, version):
    assert messages.version_of(text) == version
