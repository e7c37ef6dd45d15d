"""The agent's own step function on a simulated host, with a crash after any effect.

What survives a crash is the disk and the processes; everything else is gone. A crash comes between
two effects, also of several events that were decided together, or between two of the files of one
save. After each recovery the conservation laws must hold.
"""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

from tests.core.hosts import machine, settings
from tests.core.kubelet.test_conservation import check

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import AgentSetup, AgentState, Phase, RunState
from numalign.apps.agent.step import step
from numalign.apps.agent.steps.recovery import Ended, recovered
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.kubelet.state_checks import law_breaches
from numalign.wire.pods.records import (
    ContainerRecord,
    Metadata,
    OwnerReference,
    PodRecord,
    PodSpec,
    Resources,
)

SEEDS = 250
TURNS_PER_SEED = 120
CRASHES_MIN = 10_000  # over all seeds; counted where they happen
FILES = ("cpu", "memory", "devices", "pods")  # in the order in which they are written


class CrashError(Exception):
    """The agent is gone, in the middle of what it did."""


@dataclass
class Simulated:
    """A host: its disk, its processes, and what is on its way back to the agent."""

    rng: random.Random
    setup: AgentSetup
    state: AgentState
    disk: dict  # by file
    running: dict = field(default_factory=dict)  # (uid, container) -> CPUs
    codes: dict = field(default_factory=dict)  # exit codes recorded by the runtime
    attempts: dict = field(default_factory=dict)
    promised: set = field(default_factory=set)  # pods that somebody was told are accepted
    inbox: list = field(default_factory=list)
    now: float = 0.0
    count: int = 0
    crashes: int = 0
    points: set = field(default_factory=set)  # between which effects crashes came
    effects_left: int | None = None  # until the crash

    def deliver(self, *events, crash_after=None):
        """Has events decided together; the agent is gone after so many writes and effects."""
        for event in events:
            if isinstance(event, ev.PodDeleted):
                self.promised.discard(event.uid)
        before = self.state.pods
        self.state, effects = step(self.setup, self.state, *events)
        if any(isinstance(event, ev.PodsApplied) for event in events):
            kept = {uid for uid, pod in self.state.pods.items() if not pod.deleting}
            self.promised -= before.keys() - kept
        assert not self.state.halted, self.state.halted
        assert not self.state.problems(), "nothing here is unforeseen"
        self.effects_left = crash_after
        try:
            for effect in effects:
                self.survive(type(effect).__name__)
                self.do(effect)
            if self.effects_left is not None:
                self.survive("the end")
        except CrashError:
            self.recover()
        finally:
            self.effects_left = None

    def survive(self, point):
        if self.effects_left is None:
            return
        if self.effects_left == 0:
            self.points.add(point)
            raise CrashError
        self.effects_left -= 1

    def save(self, state):
        host = state.host
        parts = host.cpu, host.memory, host.devices.saved, state.pods
        for name, part in zip(FILES, parts, strict=True):
            if self.disk[name] is not part:
                self.disk[name] = part
                self.survive(f"after {name}")

    def do(self, effect):
        match effect:
            case ev.Save(state):
                self.save(state)
            case ev.Answer(_, uid, True) if uid:
                # Not one that was unwanted again by an event that was decided together with it.
                if uid in self.state.pods and not self.state.pods[uid].deleting:
                    self.promised.add(uid)
            case ev.StartContainer(uid, name, attempt, cpus, _):
                self.check_start(uid, name, cpus)
                self.running[uid, name] = cpus
                self.attempts[uid, name] = attempt
                self.codes.pop((uid, name), None)
                self.inbox.append(ev.ContainerStarted(uid, name, attempt, 1, self.now))
            case ev.PinContainers(pins):
                for pin in pins:
                    if (pin.uid, pin.container) in self.running:
                        self.running[pin.uid, pin.container] = pin.cpus
            case ev.StopContainer(uid, name, _):
                if self.running.pop((uid, name), None) is not None:
                    self.codes[uid, name] = 143
                    self.inbox.append(self.exit_of(uid, name, 143))
            case ev.AllocateDevices(uid, container, resource, _):
                answer = Allocation(response=b"x")
                if self.rng.random() < 0.15:
                    self.inbox.append(
                        ev.DevicesRefused(uid, container, resource, "rpc error", self.now)
                    )
                else:
                    self.inbox.append(
                        ev.DevicesAllocated(uid, container, resource, answer, self.now)
                    )
            case ev.PrestartDevices(uid, name, attempt, _):
                self.inbox.append(ev.DevicesPrestarted(uid, name, attempt, self.now))
            case ev.ForgetPod(uid):
                assert not any(key[0] == uid for key in self.running), "forgotten while running"

    def exit_of(self, uid, name, code):
        return ev.ContainerExited(uid, name, self.attempts[uid, name], code, self.now)

    def check_start(self, uid, name, cpus):
        """At that moment, not later: what has to move has moved, and the disk knows of it."""
        own = self.state.host.cpu.entries.get(uid, {}).get(name)
        assert self.disk["pods"][uid].containers[name].state is RunState.STARTING, "not saved"
        if own is not None:
            assert cpus == own and self.disk["cpu"].entries[uid][name] == own, "not its own CPUs"
        for (other, another), theirs in self.running.items():
            held = self.state.host.cpu.entries.get(other, {}).get(another)
            if other != uid and (own is not None or held is not None):
                assert not cpus & theirs, f"{uid}/{name} starts on CPUs of {other}/{another}"

    def recover(self):
        self.crashes += 1
        self.effects_left = None
        self.inbox.clear()
        self.state, effects = recovered(
            self.setup,
            cpu=self.disk["cpu"],
            memory=self.disk["memory"],
            saved_devices=self.disk["devices"],
            pods=self.disk["pods"],
            alive=dict.fromkeys(self.running, 1),
            ended={k: Ended(self.attempts[k], code) for k, code in self.codes.items()},
            now=self.now,
        )
        for effect in effects:
            self.do(effect)
        self.report_devices()
        self.deliver(ev.SourcesReady(self.now))
        self.settle()
        self.check()

    def report_devices(self):
        devices = tuple(Device(f"g{n}", (n % 2,)) for n in range(4))
        self.deliver(ev.DevicesReported("example.com/gpu", devices, self.now, needs_prestart=True))

    def next_event(self):
        self.now += self.rng.random() * 20
        if self.inbox and self.rng.random() < 0.7:
            return self.inbox.pop(0)
        choice = self.rng.random()
        if choice < 0.5:
            self.count += 1
            uid = f"u{self.count}"
            return ev.PodSubmitted(uid, random_record(self.rng, uid), "api", self.now, self.count)
        if choice < 0.56:
            return self.applied_workload()
        if choice < 0.7 and self.state.pods:
            return ev.PodDeleted(self.rng.choice(sorted(self.state.pods)), self.now)
        if choice < 0.9 and self.running:
            uid, name = self.rng.choice(sorted(self.running))
            code = self.rng.choice([0, 0, 1])
            del self.running[uid, name]
            self.codes[uid, name] = code
            return self.exit_of(uid, name, code)
        return ev.Tick(self.now)

    def applied_workload(self):
        """A workload of some size: made, scaled or changed."""
        owner = self.rng.choice([("Deployment", "web"), ("StatefulSet", "web"), ("Job", "db")])
        template = random_record(self.rng, "template")
        wanted = []
        for number in range(self.rng.randrange(4)):
            self.count += 1
            metadata = Metadata(
                name=f"{owner[1]}-{number}",
                ownerReferences=[OwnerReference("", *owner, controller=True)],
            )
            record = PodRecord(metadata=metadata, spec=template.spec)
            wanted.append(ev.Wanted(f"u{self.count}", record, self.count))
        return ev.PodsApplied(tuple(wanted), "api", self.now, 0, "default", owner)

    def settle(self):
        """Lets everything that is under way come back, so that nothing is in flight."""
        while self.inbox:
            self.deliver(self.inbox.pop(0))

    def check(self):
        self.check_processes()
        assert not list(law_breaches(self.setup.host, self.state.host))
        if not self.state.host.gone and not self.state.host.unchecked:
            check(SimpleNamespace(host=self.setup.host, state=self.state.host))

    def check_processes(self):
        names = [pod.key for pod in self.state.pods.values() if not pod.deleting]
        assert len(names) == len(set(names)), "two pods of one name"
        assert self.promised <= self.state.pods.keys(), "an accepted pod was lost"
        own = {}
        for (uid, name), cpus in self.running.items():
            assert uid in self.state.pods, "a running container without a record"
            assert cpus, "a process that may run nowhere"
            held = self.state.host.cpu.entries.get(uid, {}).get(name)
            if held is not None:
                assert cpus == held, "an exclusive container elsewhere than noted"
                own[uid, name] = cpus
        for (uid, name), cpus in own.items():
            for (other, another), theirs in self.running.items():
                if other != uid:
                    assert not cpus & theirs, f"{other}/{another} runs on CPUs of {uid}/{name}"
        for uid, known in self.state.pods.items():
            for name, status in known.containers.items():
                if status.state is RunState.RUNNING:
                    assert (uid, name) in self.running, "a record of a process that is not there"
            apps = [known.containers[c.name].state for c in known.pod.containers]
            if RunState.RUNNING in apps:
                assert known.phase is not Phase.PENDING, "it runs, and is called pending"


def amounts(rng):
    cpu = rng.choice(["250m", "1", "2", "3"])
    limits = {"cpu": cpu, "memory": rng.choice(["1Gi", "3Gi", "10Gi"])}
    if rng.random() < 0.25:
        limits["example.com/gpu"] = str(rng.randint(1, 2))
    return Resources(limits=limits) if rng.random() < 0.85 else None


def random_record(rng, uid):
    inits = [
        ContainerRecord(
            f"i{n}",
            resources=amounts(rng),
            restartPolicy=rng.choice([None, None, "Always"]),
        )
        for n in range(rng.choice([0, 0, 1, 2]))
    ]
    apps = [ContainerRecord(f"c{n}", resources=amounts(rng)) for n in range(rng.randint(1, 2))]
    policy = rng.choice(["Always", "OnFailure", "Never"])
    spec = PodSpec(containers=apps, initContainers=inits, restartPolicy=policy)
    return PodRecord(metadata=Metadata(name=uid, namespace="default"), spec=spec)


def simulated(seed):
    rng = random.Random(seed)
    options = rng.choice([[], ["full-pcpus-only"], ["strict-cpu-reservation"]])
    configured = settings(
        rng.choice(["none", "best-effort", "restricted", "single-numa-node"]),
        scope=rng.choice(["container", "pod"]),
        safe=True,
        reserved="0-1",
        cpu_options=options,
        memory=rng.random() < 0.7,
    )
    info = machine(nodes=2, cores=4)
    built = hosts.build(configured, info)
    setup = AgentSetup(built, node_fit.allocatable(configured, info), pods_known_max=60)
    state = AgentState(hosts.cleaned(built, hosts.start(built)))
    disk = {"cpu": None, "memory": None, "devices": None, "pods": {}}
    sim = Simulated(rng, setup, state, disk)
    sim.report_devices()
    return sim


def driven(seed):
    """A host after many turns of one to four events, many of which end in a crash."""
    sim = simulated(seed)
    for turn in range(TURNS_PER_SEED):
        events = [sim.next_event() for _ in range(sim.rng.choice([1, 1, 2, 4]))]
        crash_after = sim.rng.randrange(12) if sim.rng.random() < 0.6 else None
        sim.deliver(*events, crash_after=crash_after)
        if turn % 5 == 0:
            sim.settle()
            sim.check()
    return sim


def test_no_crash_loses_a_cpu_gives_one_twice_or_leaves_a_process_without_a_record():
    crashes, points = 0, set()
    for seed in range(SEEDS):
        try:
            sim = driven(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        crashes += sim.crashes
        points |= sim.points
    assert crashes >= CRASHES_MIN, f"only {crashes} crashes were made"
    # Crashes came before and after saves, in the middle of one, and among what follows.
    assert points >= {
        *(f"after {name}" for name in FILES),
        *("Save", "PinHelpers", "SetQosWeights", "PinContainers", "Answer", "Publish"),
        *("AllocateDevices", "PrestartDevices", "StartContainer", "StopContainer"),
        *("ReleasePod", "ForgetPod", "the end"),
    }, f"no crash came at {points}"
