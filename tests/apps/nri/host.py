"""A host, a runtime's messages and a runtime that remembers, for tests of the plugin's step."""

from __future__ import annotations

from dataclasses import replace

from numalign.adapters.sources.discovery import discover
from numalign.apps.nri import events, saved
from numalign.apps.nri.model import NriState
from numalign.apps.nri.policy import HostPolicy, host_policy
from numalign.apps.nri.step import step
from numalign.core.kubelet.cgroup_limits import shares_of
from numalign.core.values.sets import parse_list
from numalign.wire.nri.host_file import load
from numalign.wire.nri.values import RUNNING, STOPPED, Container, Resources, Sandbox

SHAPE = "2s:1n:4c:2t"  # two NUMA nodes with eight CPUs each
MIB = 1 << 20


def policy(extra: str = "", *, shape: str = SHAPE, topology: str = "best-effort") -> HostPolicy:
    text = f"""
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: {topology}
{extra if "reservedSystemCPUs" in extra else 'reservedSystemCPUs: "0"'}
{"" if "reservedSystemCPUs" in extra else extra}
"""
    return host_policy(load(text), discover(shape))


def new_state(found: HostPolicy | None = None) -> NriState:
    found = found or policy()
    state = NriState(found, saved.empty(found.host))
    state, _ = step(state, events.Synchronized((), ()))
    return state


def sandbox(name: str, *, qos: str = "", pid: int = 7, uid: str = "", **annotations) -> Sandbox:
    parent = "/".join(part for part in ("", "kubepods", qos, f"pod{name}") if part or not qos)
    ours = {f"numalign.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    uid = uid or f"uid-{name}"
    return Sandbox(f"s-{name}", uid, name, "default", ours, parent, Resources(), pid)


def resources(milli: int, memory: int = 64 * MIB) -> Resources:
    return Resources(shares_of(milli), milli * 100 or None, 100_000, memory_limit=memory)


def container(pod: Sandbox, name: str, milli: int, *, number: int = 0, memory: int = 64 * MIB):
    identity = f"{pod.name}-{name}-{number}"
    return Container(identity, pod.id, name, 0, resources(milli, memory))


class Runtime:
    """Does what it is answered: it knows the CPUs of every container. Crashes are easy here."""

    def __init__(self, state: NriState):
        self.state = state
        self.disk = [b"", b""]  # the two copies
        self.number = 0
        self._save(state)
        self.pods: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        self.crash_after: int | None = None  # so many effects are carried out of the next event

    def event(self, event: events.Event) -> events.Answer | None:
        after, effects = step(self.state, event)
        answer = None
        limit = len(effects) if self.crash_after is None else self.crash_after
        for effect in effects[:limit]:
            if isinstance(effect, events.Save):
                self._save(effect.state)
            elif isinstance(effect, events.AnswerPlaced | events.AnswerUpdates):
                answer = effect
                for update in effect.updates:
                    self._move(update.container, update.cpus, update.mems)
            elif isinstance(effect, events.AnswerRefused):
                answer = effect
        if any(isinstance(effect, events.Save) for effect in effects[limit : limit + 1]):
            self.disk[(self.number + 1) % 2] = b'{"version":2,"number":9999,"che'  # torn
        self.state = after
        return answer

    def _save(self, state: NriState) -> None:
        self.number += 1
        self.disk[self.number % 2] = saved.dump(state, self.number)

    def _move(self, identity: str, cpus: str, mems: str) -> None:
        one = self.containers[identity]
        found = replace(one.resources, cpus=cpus or one.resources.cpus)
        found = replace(found, mems=mems or found.mems)
        self.containers[identity] = replace(one, resources=found)

    def start(self, pod: Sandbox) -> None:
        self.pods[pod.id] = pod
        self.event(events.PodStarted(pod))

    def create(self, pod: Sandbox, name: str, milli: int, *, number: int = 0, memory=64 * MIB):
        """The answer; with one the container runs as it says, without one (a crash) as it likes."""
        one = container(pod, name, milli, number=number, memory=memory)
        answer = self.event(events.ContainerCreating(pod, one, is_asked=True))
        if isinstance(answer, events.AnswerRefused):
            return answer
        self.containers[one.id] = replace(one, state=RUNNING)
        if isinstance(answer, events.AnswerPlaced):
            self._move(one.id, answer.placing.cpus, answer.placing.mems)
        return answer

    def stop(self, identity: str):
        one = replace(self.containers[identity], state=STOPPED)
        self.containers[identity] = one
        return self.event(events.ContainerStopped(one))

    def end(self, pod: Sandbox) -> None:
        for identity, one in list(self.containers.items()):
            if one.sandbox == pod.id:
                del self.containers[identity]
        del self.pods[pod.id]
        self.event(events.PodStopped(pod))
        self.event(events.PodRemoved(pod))

    def restart(self, *, without_file: bool = False) -> None:
        """The plugin starts again from what is on the disk, and is told what runs."""
        self.crash_after = None
        found = self.state.policy
        if without_file:
            self.state = NriState(found, saved.empty(found.host))
        else:
            read = saved.load(self.disk, found.host)
            self.number = read.number
            self.state = NriState(found, read.host, stopped=read.stopped)
        self.event(events.Synchronized(tuple(self.pods.values()), tuple(self.containers.values())))

    def cpus(self, identity: str) -> str:
        return self.containers[identity].resources.cpus

    def overlaps(self) -> list[str]:
        """CPUs that one container has for itself and another one has too."""
        own = {
            identity: parse_list(one.resources.cpus)
            for identity, one in self.containers.items()
            if one.state == RUNNING
        }
        exclusive = {
            identity
            for identity in own
            if self.state.containers.get(identity) and not self.state.containers[identity].is_shared
        }
        return [
            f"{a} and {b}"
            for a in exclusive
            for b in own
            if a != b
            and own[a] & own[b]
            and self.containers[a].sandbox != self.containers[b].sandbox
        ]
