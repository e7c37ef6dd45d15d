"""Random histories of a cluster: the real step, watches that lag and repeat, binds that fail.

The API server below is the truth: it accepts every bind of a pod without a host, as the real one
does. What must hold: no host ever gets more pods than it has room for, no pod waits for ever while
there is room, and in the end every replica believes what is true.
"""

import random
from dataclasses import dataclass, field, replace

import pytest
from tests.apps.scheduler.counting import CountingFleet

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.step import step
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes.scheduling import ClusterPod

ROOM = 2
HOSTS = tuple(HostFacts(f"w{n}", allocatable={"cpu": 64_000, "pods": 110}) for n in range(3))
REPLICAS = 2


def new_pod(uid: str) -> ClusterPod:
    amounts = {"cpu": Quantity.parse("1")}
    core = Pod(uid, uid, "ns", containers=(Container("c", amounts, amounts),))
    return ClusterPod(core, scheduler="numalign")


@dataclass
class Replica:
    """One scheduler process: its state, what its watch has still to tell, its binds under way."""

    state: State = field(default_factory=lambda: State(CountingFleet(ROOM)))
    seen: int = 0  # how much of the server's history it has been told
    binds: list[events.Bind] = field(default_factory=list)
    answers: list[events.BindEnded | events.BindUnclear | events.UnclearBindRead] = field(
        default_factory=list
    )


@dataclass
class World:
    rng: random.Random
    now: float = 0.0
    pods: dict[str, ClusterPod] = field(default_factory=dict)
    history: list[events.PodSeen | events.PodGone] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    leader: int = 0
    made: int = 0

    def listed(self) -> events.PodsListed:
        return events.PodsListed(tuple(self.pods.values()), self.now)

    def feed(self, replica: Replica, event) -> None:
        for effect in step(replica.state, event):
            if isinstance(effect, events.Bind):
                replica.binds.append(effect)
            elif isinstance(effect, events.CatchUp):
                self.feed(replica, events.CaughtUp(effect.term, self.listed(), self.now))
            elif isinstance(effect, events.ReadUnclearBind):
                found = self.pods.get(effect.unclear.uid)
                replica.answers.append(events.UnclearBindRead(effect.unclear, found, "", self.now))

    # What the server and its clients do.

    def create(self) -> None:
        pod = new_pod(f"p{self.made}")
        self.made += 1
        self.pods[pod.pod.uid] = pod
        self.history.append(events.PodSeen(pod, self.now))

    def delete(self) -> None:
        if self.pods:
            uid = self.rng.choice(sorted(self.pods))
            del self.pods[uid]
            self.history.append(events.PodGone(uid, self.now))

    def bind_arrives(self, replica: Replica) -> None:
        """The server takes a bind; its answer may be lost on the way."""
        if not replica.binds:
            return
        bind = replica.binds.pop(self.rng.randrange(len(replica.binds)))
        uid = bind.pod.pod.uid
        known = self.pods.get(uid)
        fate = self.rng.random()
        if known is None:
            outcome, error = events.BindOutcome.GONE, "not found"
        elif fate < 0.1 and not known.host:
            outcome, error = events.BindOutcome.REFUSED, "the server had a bad day"
        elif known.host:
            replica.answers.append(events.BindUnclear(uid, bind.host, "already assigned", self.now))
            return
        else:
            self.pods[uid] = replace(known, host=bind.host)
            self.history.append(events.PodSeen(self.pods[uid], self.now))
            outcome, error = events.BindOutcome.BOUND, ""
            self.check()
        if self.rng.random() < 0.2:
            replica.answers.append(events.BindUnclear(uid, bind.host, "no answer", self.now))
            return
        replica.answers.append(events.BindEnded(uid, bind.host, outcome, error, self.now))

    def answer_arrives(self, replica: Replica) -> None:
        if replica.answers:
            answer = replica.answers.pop(self.rng.randrange(len(replica.answers)))
            self.feed(replica, replace(answer, now=self.now))

    def watch(self, replica: Replica, most: int = 3) -> None:
        for _ in range(self.rng.randint(0, most)):
            if replica.seen < len(self.history):
                event = self.history[replica.seen]
                replica.seen += 1
                self.feed(replica, replace(event, now=self.now))
                if self.rng.random() < 0.1:
                    self.feed(replica, replace(event, now=self.now))

    def relist(self, replica: Replica) -> None:
        """A list, after which the watch may still tell what was before it."""
        if self.rng.random() < 0.5:
            replica.seen = len(self.history)
        self.feed(replica, self.listed())

    def crash(self, number: int) -> None:
        """The process dies with all it knew; binds that were on the way may still arrive."""
        for _ in list(self.replicas[number].binds):
            if self.rng.random() < 0.5:
                self.bind_arrives(self.replicas[number])
        self.replicas[number] = self.start()
        if number == self.leader:
            self.elect((number + 1) % REPLICAS)

    def start(self) -> Replica:
        replica = Replica(seen=len(self.history))
        self.feed(replica, events.HostsListed(HOSTS, self.now))
        self.feed(replica, events.TopologiesListed((), self.now))
        self.feed(replica, self.listed())
        return replica

    def elect(self, number: int) -> None:
        """Who takes over asks first what was bound before."""
        self.leader = number
        self.feed(self.replicas[number], events.LeadershipChanged(is_leading=True, now=self.now))

    def act(self) -> None:
        self.now += self.rng.random() * 3
        replica = self.rng.choice(self.replicas)
        number = self.rng.random()
        if number < 0.18:
            # About as many as there is room for: sometimes all fit, sometimes some must wait.
            if self.rng.random() < len(self.pods) / (2 * ROOM * len(HOSTS)):
                self.delete()
            else:
                self.create()
        elif number < 0.24:
            self.relist(replica)
        elif number < 0.25:
            self.crash(self.rng.randrange(REPLICAS))
        elif number < 0.5:
            self.watch(replica)
        elif number < 0.75:
            self.feed(replica, events.Turn(self.now))
        elif number < 0.9:
            self.bind_arrives(replica)
        else:
            self.answer_arrives(replica)

    def settle(self) -> None:
        for _ in range(200):
            self.now += 11
            for replica in self.replicas:
                replica.seen, start = len(self.history), replica.seen
                for event in self.history[start:]:
                    self.feed(replica, replace(event, now=self.now))
                while replica.binds:
                    self.bind_arrives(replica)
                while replica.answers:
                    self.answer_arrives(replica)
                for _ in range(len(self.pods) + 1):
                    self.feed(replica, events.Turn(self.now))

    # What must hold.

    def check(self) -> None:
        for host in HOSTS:
            there = [uid for uid, pod in self.pods.items() if pod.host == host.name]
            assert len(there) <= ROOM, f"{host.name} has {there}"


@pytest.mark.parametrize("seed", range(150))
def test_no_host_gets_too_much_and_no_pod_is_forgotten(seed: int):
    world = World(random.Random(seed))
    world.replicas = [world.start() for _ in range(REPLICAS)]
    world.elect(0)
    for _ in range(250):
        world.act()
    world.settle()
    bound = {uid: pod.host for uid, pod in world.pods.items() if pod.host}
    waiting = world.pods.keys() - bound.keys()
    assert not waiting or len(bound) == ROOM * len(HOSTS)
    for replica in world.replicas:
        assert replica.state.placed == bound
        assert not replica.state.assumed
        on = {uid: host for host, uids in replica.state.fleet.on.items() for uid in uids}
        assert on == bound
        for host in HOSTS:
            count = sum(1 for name in bound.values() if name == host.name)
            assert len(replica.state.use[host.name].pods) == count
        assert len(replica.state.queue) == len(waiting)
