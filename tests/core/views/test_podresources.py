"""What the PodResources API tells of a host."""

from __future__ import annotations

from dataclasses import replace

from tests.core.hosts import GI, Driver, container, machine, pod, resources, settings

from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Device, device_resource, with_reported
from numalign.core.kubelet.state import Block
from numalign.core.settings import Settings, Version
from numalign.core.views.podresources import (
    Allocatable,
    ContainerView,
    DeviceUse,
    PodView,
    View,
    resources_view,
)

NIC = "example.com/nic"
ON = {"PodLevelResourceManagers": True}


def held(*pods, version=Version.V1_36, gates=None, scope="container", plugins=None):
    driver = Driver(settings(version=version, gates=gates, scope=scope), machine(), plugins)
    for one in pods:
        assert isinstance(driver.admit(one), Admitted)
    return driver


def test_a_sidecar_comes_before_the_apps_and_an_init_container_never():
    driver = held(
        pod(
            "db",
            container("setup", 1, "1Gi", init=True),
            container("log", "500m", "1Gi", sidecar=True),
            container("db", 2, "2Gi", nic=1),
        ),
        plugins={NIC: [Device("n0", (0, 1))]},
    )
    (shown,) = resources_view(driver.host, driver.state).pods
    log = ContainerView("log", (), (Block((0,), "memory", GI),))
    uses = (DeviceUse(NIC, "n0", 0), DeviceUse(NIC, "n0", 1))
    cpus = shown.apps[0].cpus
    db = ContainerView("db", cpus, (Block((0,), "memory", 2 * GI),), uses)
    assert shown == PodView("db", "default", (log,), (db,))
    assert cpus == (2, 3)


def test_every_active_pod_is_listed_by_name_also_one_that_holds_nothing():
    driver = held(pod("b", container("c")), pod("a", container("c", 2, "1Gi")))
    driver.end("a")
    driver.admit(pod("a2", container("c")))
    found = resources_view(driver.host, driver.state)
    assert [p.name for p in found.pods] == ["a2", "b"]
    assert all(p.apps == (ContainerView("c"),) for p in found.pods)
    ended = resources_view(driver.host, driver.state, ended=[pod("a", container("c"))]).ended
    assert [p.name for p in ended] == ["a"]


def test_a_device_without_a_node_is_told_without_one_and_plugins_may_be_gone():
    plugins = {NIC: [Device("n0"), Device("n1", ())]}
    driver = held(pod("p", container("c", nic=2)), plugins=plugins)
    gone = with_reported(driver.state.devices, NIC, device_resource(()))
    (shown,) = resources_view(driver.host, replace(driver.state, devices=gone)).pods
    assert shown.apps[0].devices == (DeviceUse(NIC, "n0", None), DeviceUse(NIC, "n1", None))


def test_allocatable_is_what_an_empty_host_would_have():
    plugins = {
        NIC: [
            Device("n1", (1,)),
            Device("n0", (0, 1)),
            Device("none"),
            Device("empty", ()),
            Device("sick", (0,), healthy=False),
        ],
        "example.com/sick": [Device("s", (0,), healthy=False)],
    }
    driver = held(pod("p", container("c", 2, "1Gi", nic=1)), plugins=plugins)
    assert resources_view(driver.host, driver.state).allocatable == Allocatable(
        tuple(range(1, 16)),
        (Block((0,), "memory", 15 * GI), Block((1,), "memory", 16 * GI)),
        (
            DeviceUse(NIC, "n0", 0),
            DeviceUse(NIC, "n0", 1),
            DeviceUse(NIC, "n1", 1),
            DeviceUse(NIC, "none", None),
        ),
    )


def test_without_static_policies_there_is_nothing_to_tell():
    driver = Driver(Settings(), machine())
    assert resources_view(driver.host, driver.state) == View()


def pod_level():
    own = resources(4, "4Gi")
    return pod("p", container("mine", 2, "1Gi"), container("shared"), own=own)


def test_1_36_tells_the_pool_of_a_pod_for_each_of_its_containers():
    driver = held(pod_level(), gates=ON, scope="pod")
    (shown,) = resources_view(driver.host, driver.state).pods
    assert [c.cpus for c in shown.apps] == [(2, 3), (4, 5)]
    assert (shown.cpus, shown.memory) == ((), ())


def test_1_37_tells_the_pool_of_a_pod_for_the_pod():
    driver = held(pod_level(), gates=ON, scope="pod", version=Version.V1_37)
    (shown,) = resources_view(driver.host, driver.state).pods
    assert [c.cpus for c in shown.apps] == [(2, 3), ()]
    assert [len(c.memory) for c in shown.apps] == [1, 0]
    assert shown.cpus == (2, 3, 4, 5)
    assert shown.memory == (Block((0,), "memory", 4 * GI),)


def test_1_37_tells_nothing_of_pods_as_a_whole_while_the_gate_is_off():
    driver = held(pod("p", container("c", 2, "1Gi")), version=Version.V1_37)
    (shown,) = resources_view(driver.host, driver.state).pods
    assert (shown.apps[0].cpus, shown.cpus, shown.memory) == ((2, 3), (), ())
