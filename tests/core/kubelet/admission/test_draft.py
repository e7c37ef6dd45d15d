"""A pod in the middle of its admission: which manager is asked for what."""

from tests.core.hosts import Driver, container, machine, pod, resources, settings

from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.topology.hints import Affinity
from numalign.core.pod import Container, Pod
from numalign.core.settings import Version


def drafted(new, driver=None, **options):
    driver = driver or Driver(settings(**options), machine())
    return Draft(driver.host, driver.state, new)


def test_parts_of_a_cpu_ask_nothing_of_the_cpu_manager():
    one = container("c", "1500m", "1Gi")
    devices, cpus, memory = drafted(pod("p", one)).answers(one)
    assert devices == {}
    assert cpus is None
    assert set(memory) == {"memory"}


def test_a_pod_that_is_not_guaranteed_asks_nothing_of_cpus_and_memory():
    one = Container("c", resources(2, "1Gi"), resources(4, "1Gi"))
    assert drafted(Pod("p", containers=(one,))).answers(one) == ({}, None, None)


def test_a_container_that_holds_its_cpus_hints_at_just_those():
    driver = Driver(settings("best-effort"), machine())
    one = pod("p", container("c", 3, "1Gi"))
    driver.admit(one)
    answer = drafted(one, driver).answers(one.containers[0])[1]["cpu"]
    assert [hint.nodes for hint in answer.listed()] == [0b01, 0b11]
    other = container("c", 2, "1Gi")
    changed = drafted(pod("p", other), driver)
    assert changed.answers(other)[1] == {"cpu": Affinity.NOWHERE}


def test_a_pod_as_a_whole_asks_for_its_largest_moment():
    new = pod("p", container("i", 8, "1Gi", init=True), container("c", 3, "1Gi"))
    answer = drafted(new, scope="pod").answers(None)[1]["cpu"]
    assert [hint.nodes for hint in answer.listed()] == [0b10, 0b11]


def test_a_pod_is_placed_only_if_every_container_holds_what_it_asks_for():
    driver = Driver(settings(safe=True), machine())
    one = pod("p", container("a", 1, "1Gi"), container("b", 1, "1Gi"))
    assert not drafted(one, driver).is_placed()
    driver.admit(one)
    assert drafted(one, driver).is_placed()
    wider = pod("p", container("a", 1, "1Gi"), container("b", 2, "1Gi"))
    assert not drafted(wider, driver).is_placed()


def test_from_1_37_on_a_resize_asks_nothing_of_cpus_and_memory():
    for version, is_asked in ((Version.V1_36, True), (Version.V1_37, False)):
        driver = Driver(settings(version=version), machine())
        one = pod("p", container("c", 2, "1Gi"))
        draft = Draft(driver.host, driver.state, one, is_resize=True)
        assert (draft.answers(one.containers[0])[1] is not None) is is_asked
