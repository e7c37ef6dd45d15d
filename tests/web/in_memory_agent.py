"""An agent in memory: the real ``step``, and a runtime in which every process starts and stops at
once. It keeps to the same port as the real driver."""

import asyncio
import itertools
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tests.core.hosts import settings

from numalign.adapters.sources.discovery import discover
from numalign.apps.agent import events as ev
from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.model import AgentSetup, AgentState, Allocation
from numalign.apps.agent.step import step
from numalign.apps.agent.views.journal import Journal
from numalign.apps.agent.views.manifests import Look
from numalign.core.explain.explain import explain
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import machine_info
from numalign.web.server import Tcp, serve
from numalign.wire.kubelet.config import KubeletConfig

TOKEN = "the-token"
GPU = "example.com/gpu"


def kubelet_config(configured):
    """A file that gives these settings on a machine."""
    return KubeletConfig(
        cpu_policy=configured.cpu_policy,
        cpu_options=configured.cpu_options,
        memory_policy=configured.memory_policy,
        topology_policy=configured.topology_policy,
        topology_scope=configured.topology_scope,
        topology_options=configured.topology_options,
        reserved_system_cpus=configured.reserved_cpus,
        reserved_memory=configured.reserved_memory,
        system_reserved={
            name: str(amount)
            for name, amount in configured.node_allocatable_reservation.items()
            if name != "cpu"
        },
        eviction_hard={},
        feature_gates=configured.gates,
    )


class InMemoryAgent:
    """Obeys AgentPort."""

    def __init__(
        self, logs: Path, *, policy="single-numa-node", notes_max=8, reserved="0-1", **more
    ):
        self.machine = discover("2s:1n:4c:2t")
        info = machine_info(self.machine)
        configured = settings(policy, safe=True, reserved=reserved, **more)
        built = hosts.build(configured, info)
        self.setup = AgentSetup(
            built,
            node_fit.allocatable(configured, info),
            pods_known_max=300,
            kubelet=kubelet_config(configured),
        )
        self.state = AgentState(hosts.cleaned(built, hosts.start(built)))
        self.metrics = AgentMetrics(self.setup)
        self.now = 1_900_000_000.0
        self.problems = []
        self.manifests = Look()
        self.stubborn = set()  # names of pods whose processes do not end
        self.journal = Journal(
            lambda: self.now, notes_max=notes_max, write_log=lambda *_args, **_values: None
        )
        self.journal.on_note = lambda note, seconds: self.metrics.note(note, self.state, seconds)
        self._requests = itertools.count(1)
        self._logs = logs
        devices = tuple(Device(f"g{n}", (n % 2,)) for n in range(4))
        self._tell(ev.DevicesReported(GPU, devices, self.now))
        self._tell(ev.SourcesReady(self.now))

    @property
    def recent(self):
        return self.journal.recent

    async def submit(self, record, *, source="api", asker=None):
        await asyncio.sleep(0)
        request = next(self._requests)
        uid = record.metadata.uid
        assert uid, "a pod has a uid before it is submitted"
        return self._tell(ev.PodSubmitted(uid, record, source, self.now, request, asker=asker))

    async def start_run(self, record, run):
        await asyncio.sleep(0)
        request = next(self._requests)
        asked = replace(run, request=request)
        uid = record.metadata.uid
        return self._tell(ev.PodSubmitted(uid, record, "run", self.now, request, run=asked))

    async def apply(self, pods, *, namespace="", owner=None, asker=None):
        await asyncio.sleep(0)
        requests = [next(self._requests) for _ in range(len(pods) + 1)]
        wanted = tuple(
            ev.Wanted(uid, record, request)
            for (uid, record), request in zip(pods, requests, strict=False)
        )
        answers = self._tell_all(
            ev.PodsApplied(wanted, "api", self.now, requests[-1], namespace, owner, asker)
        )
        return [answers[request] for request in requests[:-1]], answers[requests[-1]]

    async def delete(self, uid):
        await asyncio.sleep(0)
        return self._tell(ev.PodDeleted(uid, self.now, next(self._requests)))

    def subscribe(self):
        return self.journal.subscribe()

    def log_path(self, uid, container):
        return self._logs / f"{uid}_{container}.log"

    def health(self):
        return list(self.problems)

    def exit(self, uid, container, code):
        """Has a process end."""
        attempt = self.state.pods[uid].containers[container].restarts
        self._tell(ev.ContainerExited(uid, container, attempt, code, self.now))

    def _tell(self, event):
        return next(reversed(self._tell_all(event).values()), None)

    def _tell_all(self, event):
        answers = {}
        inbox = [event]
        while inbox:
            self.state, effects = step(self.setup, self.state, inbox.pop(0))
            for effect in effects:
                match effect:
                    case ev.Answer():
                        answers[effect.request] = effect
                    case ev.StartContainer(uid, name, attempt):
                        inbox.append(ev.ContainerStarted(uid, name, attempt, 4242, self.now))
                    case ev.StopContainer(uid, name, _):
                        pod = self.state.pods[uid]
                        if pod.pod.name not in self.stubborn:
                            attempt = pod.containers[name].restarts
                            inbox.append(ev.ContainerExited(uid, name, attempt, 143, self.now))
                    case ev.AllocateDevices(uid, name, resource, _):
                        given = Allocation(response=b"x")
                        inbox.append(ev.DevicesAllocated(uid, name, resource, given, self.now))
                    case ev.Explain(case):
                        inbox.append(ev.RefusalExplained(case.pod.uid, explain(case)))
                    case ev.Publish(note):
                        self.journal.publish(note)
        return answers


class Served:
    """A served agent in a thread of its own, and the ways to it."""

    def __init__(self, agent, socket, tcp, loop):
        self.agent, self.socket, self.tcp, self._loop = agent, socket, tcp, loop

    def call(self, function, *args):
        """Runs a function in the agent's thread."""

        async def run():
            return function(*args)

        return self.do(run())

    def do(self, coroutine):
        """Runs a coroutine in the agent's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


@contextmanager
def served(agent, directory, **more):
    """The real servers around an agent, until the block ends."""
    path = directory / "agent.sock"
    up = threading.Event()
    found = {}

    async def run():
        found["loop"] = asyncio.get_running_loop()
        found["task"] = asyncio.current_task()

        def started(addresses):
            found["addresses"] = addresses
            up.set()

        with suppress(asyncio.CancelledError):
            await serve(
                agent,
                unix_socket=path,
                tcp=Tcp(("127.0.0.1", 0), TOKEN),
                metrics=agent.metrics,
                on_started=started,
                **more,
            )

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert up.wait(10), "the servers did not start"
        yield Served(agent, path, found["addresses"][1], found["loop"])
    finally:
        with suppress(RuntimeError):  # its loop is closed: the start failed
            found["loop"].call_soon_threadsafe(found["task"].cancel)
        thread.join(10)
        assert not thread.is_alive(), "the servers did not stop"


def manifest(name="web", *, cpu="2", memory="1Gi", gpus=0, namespace="default", **more):
    """A Guaranteed pod of one container."""
    amounts = {"cpu": cpu, "memory": memory}
    if gpus:
        amounts[GPU] = str(gpus)
    container = {"name": "main", "command": ["sleep", "1"], "resources": {"limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{**container, **more}]},
    }
