"""The scheduler's step with the real deciding core, on hosts that decide as kubelets do.

Hosts of all policies and scopes admit pods in the order in which they are bound, and publish late,
sometimes never for a while. Pods come and go, binds fail, the scheduler restarts. No host may ever
refuse a pod that the scheduler gave it, and in the end no pod waits that some host would take.
"""

import random
from dataclasses import dataclass, field, replace

import pytest
from tests.cluster.fleet import FleetHost, HostPlan

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.step import step
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes.scheduling import ClusterPod

PLANS = (
    HostPlan("single", "1s:2n:4c:1t,mem=8Gi", "single-numa-node"),
    HostPlan("restricted", "2s:2n:2c:1t,mem=4Gi", "restricted"),
    HostPlan("by-pod", "1s:2n:4c:1t,mem=8Gi", "single-numa-node", "pod"),
    HostPlan("restricted-by-pod", "1s:4n:2c:1t,mem=4Gi", "restricted", "pod"),
)
SHAPES = (("1",), ("2",), ("3",), ("1", "2"), ("500m",), ("2", "2"))


def new_pod(uid: str, cpus: tuple[str, ...]) -> ClusterPod:
    containers = []
    for number, cpu in enumerate(cpus):
        amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse("256Mi")}
        containers.append(Container(f"c{number}", amounts, amounts))
    return ClusterPod(Pod(uid, uid, "ns", containers=tuple(containers)), scheduler="numalign")


@dataclass
class World:
    rng: random.Random
    hosts: dict[str, FleetHost]
    now: float = 0.0
    pods: dict[str, ClusterPod] = field(default_factory=dict)
    published: dict = field(default_factory=dict)
    binds: list[events.Bind] = field(default_factory=list)
    refused: list = field(default_factory=list)
    made: int = 0

    def start(self) -> None:
        """A scheduler that knows nothing but what the API server has."""
        self.binds.clear()
        self.state = State(Fleet())
        facts = []
        for name, host in self.hosts.items():
            allocatable = {**host.snapshot.totals}
            facts.append(HostFacts(name, allocatable=allocatable))
        self.feed(events.HostsListed(tuple(facts), self.now))
        self.feed(events.TopologiesListed(tuple(self.published.values()), self.now))
        self.feed(events.PodsListed(tuple(self.pods.values()), self.now))
        self.feed(events.LeadershipChanged(is_leading=True, now=self.now))

    def feed(self, event) -> None:
        for effect in step(self.state, event):
            if isinstance(effect, events.Bind):
                self.binds.append(effect)
            elif isinstance(effect, events.CatchUp):
                pods = events.PodsListed(tuple(self.pods.values()), self.now)
                self.feed(events.CaughtUp(effect.term, pods, self.now))

    def publish(self, name: str) -> None:
        self.published[name] = self.hosts[name].topology()
        self.feed(events.TopologySeen(self.published[name], self.now))

    def create(self) -> None:
        pod = new_pod(f"p{self.made}", self.rng.choice(SHAPES))
        self.made += 1
        self.pods[pod.pod.uid] = pod
        self.feed(events.PodSeen(pod, self.now))

    def delete(self) -> None:
        bound = [uid for uid, pod in self.pods.items() if pod.host]
        if bound:
            uid = self.rng.choice(bound)
            pod = self.pods.pop(uid)
            self.hosts[pod.host].end(uid)
            self.feed(events.PodGone(uid, self.now))

    def bind(self) -> None:
        """The oldest bind to some host arrives; its kubelet decides at once."""
        if not self.binds:
            return
        name = self.rng.choice(sorted({bind.host for bind in self.binds}))
        bind = next(b for b in self.binds if b.host == name)
        self.binds.remove(bind)
        uid = bind.pod.pod.uid
        if uid not in self.pods:
            self.feed(events.BindEnded(uid, name, events.BindOutcome.GONE, "gone", self.now))
            return
        if self.rng.random() < 0.1:
            self.feed(
                events.BindEnded(uid, name, events.BindOutcome.REFUSED, "a bad day", self.now)
            )
            return
        found = self.hosts[name].admit(bind.pod.pod)
        if found is not None:
            self.refused.append((uid, name, found))
        self.pods[uid] = replace(self.pods[uid], host=name)
        self.feed(events.BindEnded(uid, name, events.BindOutcome.BOUND, "", self.now))
        self.feed(events.PodSeen(self.pods[uid], self.now))

    def act(self) -> None:
        self.now += self.rng.random() * 2
        number = self.rng.random()
        if number < 0.25:
            self.create()
        elif number < 0.38:
            self.delete()
        elif number < 0.55:
            self.publish(self.rng.choice(sorted(self.hosts)))
        elif number < 0.56:
            self.start()
        elif number < 0.8:
            self.feed(events.Turn(self.now))
        else:
            self.bind()

    def settle(self) -> None:
        for _ in range(40):
            self.now += 11
            for _ in range(len(self.pods) + 1):
                self.feed(events.Turn(self.now))
            while self.binds:
                self.bind()
            for name in self.hosts:
                self.publish(name)


# Histories in which a scheduler that had just started did not know of a pod that had come and gone.
FOUND = (423, 1189, 1488, 1578, 1681)


@pytest.mark.parametrize("seed", [*range(25), *FOUND])
def test_no_kubelet_refuses_what_it_was_given(seed: int):
    world = World(random.Random(seed), {plan.name: FleetHost(plan) for plan in PLANS})
    for name in world.hosts:
        world.published[name] = world.hosts[name].topology()
    world.start()
    for _ in range(150):
        world.act()
        assert not world.refused, f"seed {seed}: {world.refused}"
    world.settle()
    assert not world.refused
    for pod in world.pods.values():
        if not pod.host:
            takers = [name for name, host in world.hosts.items() if _would_take(host, pod)]
            assert not takers, f"{pod.pod.uid} waits, and {takers} would take it"


def _would_take(host: FleetHost, pod: ClusterPod) -> bool:
    before = host.snapshot
    refused = host.admit(pod.pod)
    host.snapshot = before
    return refused is None
