"""Hosts that decide with the deciding core, publish late, and see what is bound to them late."""

from dataclasses import dataclass, field

from tests.core import hosts

from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.cluster.publish.zones import (
    Attribute,
    HostTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.rebuild import frame_of, free_by_node
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import placements
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import Device
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity

GPU = "vendor.com/gpu"


def a_pod(uid, *containers, init=()):
    """A Guaranteed pod; a container is (CPUs, GiB, gpus)."""

    def container(i, sizes, *, is_init):
        cpus, memory, gpus = sizes
        amounts = {"cpu": Quantity.parse(str(cpus)), "memory": Quantity.parse(f"{memory}Gi")}
        if gpus:
            amounts[GPU] = Quantity.of(gpus)
        return Container(f"{'i' if is_init else 'c'}{i}", amounts, amounts, is_init)

    return Pod(
        uid,
        uid,
        "default",
        tuple(container(i, sizes, is_init=True) for i, sizes in enumerate(init)),
        tuple(container(i, sizes, is_init=False) for i, sizes in enumerate(containers)),
    )


def placement_of(built, state, found):
    """What an exporter that reads the state files publishes."""
    pods = tuple(
        PlacedPod(
            pod.namespace,
            pod.name,
            pod.uid,
            tuple(
                PlacedContainer(p.container, p.cpus or 0, p.memory, p.devices)
                for p in placements(state, pod)
            ),
            state.cpu.pod_sets.get(pod.uid, 0),
            state.memory.pod_blocks.get(pod.uid, ()),
        )
        for pod in state.pods.values()
    )
    return PublishedPlacement(built.info, built.settings, found, pods, state.cpu.shared)


def topology_of(name, placement, state, *, with_placement=True):
    """The whole object that it publishes."""
    frame = frame_of(placement)
    zones = tuple(
        Zone(
            zone_name(node),
            resources=tuple(
                ZoneResource(kind, *[Quantity.of(nanos // 10**9)] * 3)
                for kind, nanos in sorted(amounts.items())
            ),
        )
        for node, amounts in free_by_node(frame, state).items()
    )
    names = [(pod.namespace, pod.name) for pod in state.pods.values()]
    settings = placement.settings
    attributes = (
        Attribute("topologyManagerPolicy", settings.topology_policy),
        Attribute("topologyManagerScope", settings.topology_scope),
        Attribute("nodeTopologyPodsFingerprint", fingerprint(names)),
    )
    return HostTopology(name, zones, attributes, placement=placement if with_placement else None)


@dataclass
class Kubelet:
    """One host. ``inbox`` is what its watch will bring, in the order of the API server."""

    name: str
    built: host.Host
    found: dict[str, tuple[Device, ...]]
    state: host.HostState = None
    inbox: list[tuple[str, Pod]] = field(default_factory=list)
    published: list[HostTopology] = field(default_factory=list)  # on the way to the scheduler
    refused: list[tuple[Pod, object]] = field(default_factory=list)
    with_placement: bool = True

    def __post_init__(self):
        self.state = host.start(self.built)
        for name, listed in self.found.items():
            reported = devices.with_reported(
                self.state.devices, name, devices.device_resource(listed)
            )
            self.state = host.HostState(self.state.cpu, self.state.memory, reported)

    def facts(self):
        totals = frame_of(self._placement()).totals
        counts = {name: len(listed) for name, listed in self.found.items()}
        return HostFacts(self.name, allocatable={**totals, **counts})

    def work(self, count):
        """Takes up the next events together: pods that went first, then new ones by age."""
        batch, self.inbox = self.inbox[:count], self.inbox[count:]
        gone = {pod.uid for kind, pod in batch if kind == "gone"}
        for uid in gone:
            self.state = host.ended(self.state, uid)
        came = [pod for kind, pod in batch if kind == "came" and pod.uid not in gone]
        totals = frame_of(self._placement()).totals
        for pod in sorted(came, key=lambda pod: pod.uid):
            self.state, verdict = verdict_on(self.built, self.state, totals, pod)
            if not isinstance(verdict, Admitted):
                self.refused.append((pod, verdict))

    def end(self, uid):
        """A pod ends by itself; the API server hears of it later."""
        self.state = host.ended(self.state, uid)

    def publish(self):
        self.published.append(
            topology_of(
                self.name, self._placement(), self.state, with_placement=self.with_placement
            )
        )

    def _placement(self):
        return placement_of(self.built, self.state, self.found)


def a_kubelet(rng, name, **options):
    """A random host."""
    nodes = rng.choice([1, 2, 2, 4])
    info = hosts.machine(nodes, rng.choice([2, 4]), rng.choice([1, 2]), memory=16 * hosts.GI)
    built = host.build(
        hosts.settings(
            rng.choice(["single-numa-node", "restricted", "restricted", "best-effort"]),
            scope=rng.choice(["container", "pod"]),
            memory=rng.random() < 0.6,
            cpu_options=rng.choice(
                [(), (), ("full-pcpus-only",), ("distribute-cpus-across-numa",)]
            ),
        ),
        info,
    )
    found = {}
    if rng.random() < 0.5:
        found[GPU] = tuple(
            Device(f"gpu{i}", (rng.randrange(nodes),)) for i in range(rng.randrange(1, 5))
        )
    return Kubelet(name, built, found, **options)
