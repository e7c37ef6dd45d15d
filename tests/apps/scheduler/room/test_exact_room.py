"""Victims and held room with the deciding core: hosts that decide as kubelets do agree."""

import json
import random
from itertools import combinations

import pytest
from tests.cluster.fleet import FleetHost, HostPlan

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.between_pods.gangs import GangRef
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes.scheduling import ClusterPod, host_from_json

PLANS = (
    HostPlan("a", "1s:4n:4c:1t,mem=8Gi", "single-numa-node"),
    HostPlan("b", "2s:1n:4c:2t,mem=8Gi", "restricted"),
)


def pod(uid, cpu, priority=0, **more):
    amounts = {"cpu": Quantity.parse(str(cpu)), "memory": Quantity.parse("128Mi")}
    core = Pod(uid, uid, "ns", containers=(Container("c", amounts, amounts),))
    return ClusterPod(core, scheduler="numalign", priority=priority, **more)


class Cluster:
    """Hosts that decide as kubelets do, and our step; the driver's part is played here."""

    def __init__(self, plans=PLANS):
        self.hosts = {plan.name: FleetHost(plan) for plan in plans}
        self.state = State(Fleet())
        self.now = 1.0
        self.victims = []
        facts = tuple(host_from_json(json.dumps(h.node()).encode()) for h in self.hosts.values())
        self.tell(events.PodsListed((), 0.0))
        self.tell(events.HostsListed(facts, 0.0))
        self.tell(events.TopologiesListed(tuple(h.topology() for h in self.hosts.values()), 0.0))
        self.tell(room_events.BudgetsListed((), 0.0))
        (asked,) = step(self.state, events.LeadershipChanged(is_leading=True, now=0.0))
        self.tell(events.CaughtUp(asked.term, events.PodsListed((), 0.0), 0.0))

    def tell(self, event):
        self.carry_out(step(self.state, event))

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case events.Bind(one, host):
                    assert self.hosts[host].admit(one.pod) is None, "a kubelet refuses the pod"
                    outcome = events.BindOutcome.BOUND
                    self.tell(events.BindEnded(one.pod.uid, host, outcome, "", self.now))
                    self.tell(events.PodSeen(_on(one, host), self.now))
                case room_events.Nominate(one, host):
                    self.tell(room_events.NominationWritten(one.pod.uid, host, "", self.now))
                case room_events.Evict(uid, victim):
                    self.victims.append(victim)
                    accepted = room_events.EvictionOutcome.ACCEPTED
                    self.tell(
                        room_events.EvictionEnded(uid, victim.pod.uid, accepted, "", self.now)
                    )
                case _:
                    pass

    def end(self, one):
        self.hosts[one.host].end(one.pod.uid)
        self.tell(events.PodGone(one.pod.uid, self.now))

    def publish(self):
        for host in self.hosts.values():
            self.tell(events.TopologySeen(host.topology(), self.now))

    def turns(self):
        self.now += 20
        while (at := next_turn_at(self.state, self.now)) is not None and at <= self.now:
            self.tell(events.Turn(self.now))

    def fill(self, rng, sizes=(1, 2, 3)):
        """Pods of lower priority until nothing fits any more."""
        for number in range(40):
            one = pod(f"low{number:02}", rng.choice(sizes), rng.randrange(3), preempts=False)
            self.tell(events.PodSeen(one, 1.0))
            self.turns()
            self.publish()
        for uid in [uid for uid in self.state.pods if uid not in self.state.placed]:
            self.tell(events.PodGone(uid, self.now))


def _on(one, host):
    return ClusterPod(
        one.pod, host=host, scheduler=one.scheduler, priority=one.priority, gang=one.gang
    )


def lets_in(host, gone, one):
    """Whether a kubelet takes a pod once others are gone, on a copy of it."""
    copy = FleetHost(host.plan)
    copy.snapshot = host.snapshot
    for uid in gone:
        copy.end(uid)
    return copy.admit(one.pod) is None


@pytest.mark.parametrize("seed", range(6))
def test_the_victims_let_the_pod_in_and_no_fewer_would(seed):
    rng = random.Random(seed)
    cluster = Cluster()
    cluster.fill(rng)
    high = pod("high", rng.choice([2, 3, 4]), 10)
    before = {name: host.snapshot for name, host in cluster.hosts.items()}
    cluster.tell(events.PodSeen(high, cluster.now))
    cluster.turns()
    if not cluster.victims:
        assert "high" in cluster.state.placed
        return
    count = len(cluster.victims)
    for name, host in cluster.hosts.items():
        host.snapshot, now = before[name], host.snapshot
        for size in range(count):
            for gone in combinations(sorted(host.snapshot.state.pods), size):
                assert not lets_in(host, gone, high), f"{gone} on {name} would have been enough"
        host.snapshot = now
    for victim in list(cluster.victims):
        cluster.end(victim)
        if rng.random() < 0.5:
            cluster.publish()
    cluster.turns()
    assert cluster.state.placed["high"] == cluster.victims[0].host
    assert len(cluster.victims) == count, "more pods were evicted than named"


@pytest.mark.parametrize("seed", range(6))
def test_pods_that_come_meanwhile_do_not_take_the_room_that_is_made(seed):
    rng = random.Random(seed)
    cluster = Cluster()
    cluster.fill(rng, sizes=(1, 1, 2))
    cluster.tell(events.PodSeen(pod("high", 3, 10), cluster.now))
    cluster.turns()
    count = len(cluster.victims)
    for number, victim in enumerate(list(cluster.victims)):
        cluster.end(victim)
        cluster.tell(events.PodSeen(pod(f"late{number}", rng.choice([1, 2]), 5), cluster.now))
        if rng.random() < 0.5:
            cluster.publish()
        if "high" not in cluster.state.queue or number + 1 < count:
            cluster.turns()
    cluster.turns()
    assert "high" in cluster.state.placed
    assert len([one for one in cluster.victims if one.priority < 5]) >= count
    assert not cluster.state.room.held or "high" in cluster.state.placed


@pytest.mark.parametrize("seed", range(6))
def test_a_gang_is_admitted_whole_and_one_that_failed_changes_no_later_answer(seed):
    rng = random.Random(seed)
    cluster, untouched = Cluster(), Cluster()
    for one in (cluster, untouched):
        one.fill(random.Random(seed), sizes=(2, 3))
        # One pod is on its way, so that the order of what comes and goes matters.
        one.end(next(p for p in one.state.pods.values() if p.host == "a"))
        one.tell(events.PodSeen(pod("under-way", 1), one.now))
        one.turns()
    big = [pod(f"gang{n}", 1 + n % 2, gang=GangRef("ns/g", 9)) for n in range(9)]
    for one in big:
        cluster.tell(events.PodSeen(one, cluster.now))
    cluster.turns()
    assert not [one for one in big if one.pod.uid in cluster.state.placed]
    for name in cluster.hosts:
        assert cluster.state.fleet.states(name) == untouched.state.fleet.states(name)
    for one in big:
        cluster.tell(events.PodGone(one.pod.uid, cluster.now))
    ending = rng.sample(sorted(cluster.state.placed), 4)
    for one in (cluster, untouched):
        one.now = 10_000.0
        for uid in ending:
            one.end(one.state.pods[uid])
        for number in range(6):
            one.tell(events.PodSeen(pod(f"after{number}", 1 + number % 3), one.now))
        one.turns()
    assert cluster.state.placed == untouched.state.placed
    team = [pod(f"team{n}", 2, gang=GangRef("ns/t", 2)) for n in range(2)]
    for uid in [uid for uid in cluster.state.placed if uid.startswith("low")]:
        cluster.end(cluster.state.pods[uid])
    cluster.publish()
    for one in team:
        cluster.tell(events.PodSeen(one, cluster.now))
    cluster.turns()
    assert {"team0", "team1"} <= cluster.state.placed.keys()
