"""The agent's own step function on a simulated host, with a crash after any effect.

What survives a crash is the disk (what was saved last) and the processes. Everything else is gone.
"""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
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
from numalign.wire.pods.records import ContainerRecord, Metadata, PodRecord, PodSpec, Resources

CRASHES_PER_SEED = 40


@dataclass
class Simulated:
    """A host: its disk, its processes, and what is on its way back to the agent."""

    rng: random.Random
    setup: AgentSetup
    state: AgentState
    disk: AgentState
    running: dict = field(default_factory=dict)  # (uid, container) -> CPUs
    codes: dict = field(default_factory=dict)  # exit codes recorded by the runtime
    attempts: dict = field(default_factory=dict)
    promised: set = field(default_factory=set)  # pods that somebody was told are accepted
    inbox: list = field(default_factory=list)
    now: float = 0.0
    count: int = 0
    crashes: int = 0

    def deliver(self, event):
        if isinstance(event, ev.PodDeleted):
            self.promised.discard(event.uid)
        self.state, effects = step(self.setup, self.state, event)
        self.carry_out(effects)

    def carry_out(self, effects):
        """Carries effects out in order, and may crash after any of them."""
        crash_at = None
        if self.rng.random() < 0.35:
            crash_at = self.rng.randrange(len(effects) + 1)
        for number, effect in enumerate(effects):
            if number == crash_at:
                return self.crash()
            self.do(effect)
        if crash_at == len(effects):
            self.crash()
        return None

    def do(self, effect):
        match effect:
            case ev.Save():
                self.disk = self.state
            case ev.Answer(_, uid, True):
                self.promised.add(uid)
            case ev.StartContainer(uid, name, attempt, cpus, _):
                self.running[uid, name] = cpus
                self.attempts[uid, name] = attempt
                self.codes.pop((uid, name), None)
                self.inbox.append(ev.ContainerStarted(uid, name, attempt, 1, self.now))
            case ev.PinContainer(uid, name, cpus, _):
                if (uid, name) in self.running:
                    self.running[uid, name] = cpus
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
            case ev.ForgetPod(uid):
                assert not any(key[0] == uid for key in self.running), "forgotten while running"

    def exit_of(self, uid, name, code):
        return ev.ContainerExited(uid, name, self.attempts[uid, name], code, self.now)

    def crash(self):
        self.crashes += 1
        self.inbox.clear()
        saved = self.disk
        self.state, effects = recovered(
            self.setup,
            cpu=saved.host.cpu,
            memory=saved.host.memory,
            saved_devices=saved.host.devices.saved,
            pods=saved.pods,
            alive=dict.fromkeys(self.running, 1),
            ended={k: Ended(self.attempts[k], code) for k, code in self.codes.items()},
            now=self.now,
        )
        for effect in effects:  # a second crash during recovery comes with the next event
            self.do(effect)
        self.report_devices()
        self.deliver_calmly(ev.SourcesReady(self.now))

    def deliver_calmly(self, event):
        self.state, effects = step(self.setup, self.state, event)
        for effect in effects:
            self.do(effect)

    def report_devices(self):
        devices = tuple(Device(f"g{n}", (n % 2,)) for n in range(4))
        self.deliver_calmly(ev.DevicesReported("example.com/gpu", devices, self.now))

    def next_event(self):
        self.now += self.rng.random() * 20
        if self.inbox and self.rng.random() < 0.7:
            return self.inbox.pop(0)
        choice = self.rng.random()
        if choice < 0.5:
            self.count += 1
            uid = f"u{self.count}"
            return ev.PodSubmitted(uid, random_record(self.rng, uid), "api", self.now, self.count)
        if choice < 0.7 and self.state.pods:
            return ev.PodDeleted(self.rng.choice(sorted(self.state.pods)), self.now)
        if choice < 0.9 and self.running:
            uid, name = self.rng.choice(sorted(self.running))
            code = self.rng.choice([0, 0, 1])
            del self.running[uid, name]
            self.codes[uid, name] = code
            return self.exit_of(uid, name, code)
        return ev.Tick(self.now)

    def settle(self):
        """Lets everything that is under way come back, so that nothing is in flight."""
        while self.inbox:
            self.deliver_calmly(self.inbox.pop(0))

    def check(self):
        self.check_processes()
        if not self.state.host.gone and not self.state.host.unchecked:
            check(SimpleNamespace(host=self.setup.host, state=self.state.host))

    def check_processes(self):
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
    sim = Simulated(rng, setup, state, state)
    sim.report_devices()
    return sim


@pytest.mark.parametrize("seed", range(250))
def test_no_crash_loses_a_cpu_gives_one_twice_or_leaves_a_process_without_a_record(seed):
    sim = simulated(seed)
    steps = 0
    while sim.crashes < CRASHES_PER_SEED and steps < 400:
        steps += 1
        sim.deliver(sim.next_event())
        if steps % 5 == 0:
            sim.settle()
            sim.check()
    assert sim.crashes >= CRASHES_PER_SEED or steps == 400


def test_all_seeds_together_crash_ten_thousand_times():
    assert 250 * CRASHES_PER_SEED >= 10_000


def test_a_crash_right_after_saving_does_not_lose_an_admitted_pod():
    sim = simulated(1)
    sim.rng = random.Random(0)
    record = random_record(random.Random(3), "u1")
    after, effects = step(sim.setup, sim.state, ev.PodSubmitted("u1", record, "api", 0.0, 1))
    kinds = [type(effect) for effect in effects]
    assert kinds[0] is ev.Save, "saved before it is answered"
    assert kinds.index(ev.Save) < kinds.index(ev.Answer)
    assert "u1" in after.pods
