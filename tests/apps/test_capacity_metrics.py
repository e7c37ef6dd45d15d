from prometheus_client import CollectorRegistry
from tests.core.cluster.scheduling.kubelets import GPU, a_pod
from tests.core.fleet.test_capacity import a_host

from numalign.apps.capacity_metrics import CapacityMetrics
from numalign.core.fleet.measures import ReferencePod
from numalign.core.kubelet.admission.verdict import verdict_on

MIX = [
    ReferencePod("small", a_pod("s", (2, 1, 0)), 3),
    ReferencePod("gpu", a_pod("g", (4, 1, 1)), 1),
]


def value(registry, name, **labels):
    return registry.get_sample_value(name, labels)


def test_capacity_follows_hosts_that_change_come_and_go():
    registry = CollectorRegistry()
    metrics = CapacityMetrics(registry, MIX)
    frame = a_host(gpus=(0, 1))  # 7 and 8 CPUs to give
    metrics.update([("one", (frame, frame.empty)), ("two", (frame, frame.empty)), ("mute", None)])
    assert value(registry, "numalign_capacity_pods", shape="small") == 14
    assert value(registry, "numalign_capacity_pods", shape="gpu") == 4
    full, _ = verdict_on(frame.host, frame.empty, frame.totals, a_pod("x", (6, 1, 0)))
    metrics.update([("one", (frame, full))])
    assert value(registry, "numalign_capacity_pods", shape="small") == 4
    assert value(registry, "numalign_capacity_pods", shape="gpu") == 1
    assert value(registry, "numalign_capacity_stranded", resource=GPU, node="0") == 1
    assert value(registry, "numalign_capacity_stranded", resource=GPU, node="1") == 0
    # Of 9 idle CPUs small pods leave 1 and gpu pods 5, three to one.
    assert value(registry, "numalign_capacity_useless", resource="cpu") == (3 * 1 + 1 * 5) / 4


def test_an_unchanged_host_is_not_counted_again():
    registry = CollectorRegistry()
    metrics = CapacityMetrics(registry, MIX)
    frame = a_host()
    for _ in range(3):
        metrics.update([("one", (frame, frame.empty))])
    assert value(registry, "numalign_capacity_pods", shape="small") == 7


def test_who_asks_waits_for_a_bounded_time_and_the_rest_follows():
    registry, clock = CollectorRegistry(), [0.0]

    def now():
        clock[0] += 1.0
        return clock[0]

    metrics = CapacityMetrics(registry, MIX, seconds_max=3, now=now)
    frame = a_host()
    hosts = [(name, (frame, frame.empty)) for name in ("one", "two", "three")]
    metrics.update(hosts)
    assert value(registry, "numalign_capacity_hosts_behind") == 1
    assert value(registry, "numalign_capacity_pods", shape="small") == 14
    metrics.update(hosts)
    assert value(registry, "numalign_capacity_hosts_behind") == 0
    assert value(registry, "numalign_capacity_pods", shape="small") == 21
