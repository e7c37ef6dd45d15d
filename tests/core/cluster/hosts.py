"""The host of the worked example in the exporters' description, and shorthands for views."""

from numalign.core.cluster.publish.export import HostReport, KnownPod
from numalign.core.kubelet.state import Block
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.pod import Container, Pod
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity
from numalign.core.views.podresources import Allocatable, ContainerView, DeviceUse, PodView, View

GI = 1 << 30
NIC = "vendor.com/nic"
MACHINE = synthetic_machine("2s:1n:8c:1t,mem=32Gi")
OFFERED = Allocatable(
    tuple(cpu for cpu in range(16) if cpu not in (0, 8)),
    (Block((0,), "memory", 30 * GI), Block((1,), "memory", 31 * GI)),
    (DeviceUse(NIC, "n0", 0), DeviceUse(NIC, "n1", 1)),
)
SETTINGS = Settings(topology_policy="single-numa-node", cpu_policy="static", memory_policy="Static")


def listed(name, cpus=(), memory=(), devices=(), *, container="app"):
    """A pod as the PodResources API lists it."""
    return PodView(
        name, "default", (), (ContainerView(container, tuple(cpus), tuple(memory), tuple(devices)),)
    )


def known(name, cpu, memory="1Gi", *, guaranteed=True, init=()):
    """The same pod as the API server knows it."""
    amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    app = Container("app", amounts, amounts if guaranteed else {})
    inits = tuple(Container(one, amounts, amounts, is_init=True) for one in init)
    uid = f"uid-{name}"
    return KnownPod(Pod(uid, name, "default", inits, (app,)), uid)


P1 = listed("p1", (1, 2), [Block((0,), "memory", 4 * GI)], [DeviceUse(NIC, "n0", 0)])
P2 = listed("p2")
P3 = listed("p3", (), [Block((1,), "memory", GI)])
P4 = listed("p4", (*range(3, 8), *range(9, 13)), [Block((0, 1), "memory", 28 * GI)])
KNOWN = {
    ("default", found.pod.name): found
    for found in (
        known("p1", "2"),
        known("p2", "1", guaranteed=False),
        known("p3", "500m"),
        known("p4", "9"),
    )
}


def report(*pods, offered=OFFERED, machine=MACHINE, settings=SETTINGS, **others):
    """The example's host with these pods."""
    return HostReport(
        name="worker-0",
        machine=machine,
        info=machine_info(machine),
        settings=settings,
        view=View(pods, offered),
        **{"pods": KNOWN, **others},
    )
