"""Short ways to hosts and pods for tests of the scheduler's core."""

from numalign.core.cluster.nrt_match.need import Ask, PodNeed, Why, nanos_of, offered, total_of
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.zones import TopologyConfig
from numalign.core.pod import Qos
from numalign.core.values.quantity import Quantity

GPU = "vendor.com/gpu"


def amounts(**texts):
    """``cpu="2", memory="1Gi", gpu="1"``."""
    names = {"gpu": GPU, "pages": "hugepages-2Mi", "storage": "ephemeral-storage"}
    return nanos_of({names.get(k, k): Quantity.parse(str(v)) for k, v in texts.items()})


def app(**texts):
    return Ask(Why.CONTAINER, amounts(**texts))


def init(**texts):
    return Ask(Why.INIT_CONTAINER, amounts(**texts))


def sidecar(**texts):
    return Ask(Why.SIDECAR, amounts(**texts))


def need(*asks, qos=Qos.GUARANTEED):
    return PodNeed(qos, tuple(asks), total_of(asks, {}))


def host(
    *zones,
    policy="single-numa-node",
    scope="container",
    costs=None,
    has=(GPU, "hugepages-2Mi"),
    name="host",
    max_nodes=8,
):
    records = tuple(
        ZoneRecord(i, zone, dict(enumerate(costs[i])) if costs else {})
        for i, zone in enumerate(zones)
    )
    return HostRecord(name, TopologyConfig(policy, scope, max_nodes), records, offered(has))
