"""The judge that asks the deciding core about one host after the other.

A host with a published placement is rebuilt from it; pods that are placed there and not yet
published are admitted on top of it in the order in which they were placed, as its kubelet will do.
Hosts without a placement follow the common rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numalign.apps.scheduler.judge import Refusal
from numalign.core import devices as device_rules
from numalign.core import host as hosts
from numalign.core import memory_static, node_fit
from numalign.core.cluster import fingerprint, match
from numalign.core.cluster.constraints import HostFacts
from numalign.core.cluster.match import Strategy
from numalign.core.cluster.need import WORDS, PodNeed, Why, need_of
from numalign.core.cluster.placement import PublishedPlacement
from numalign.core.cluster.record import HostRecord, record_of, reserved_everywhere
from numalign.core.cluster.zones import HostTopology
from numalign.core.devices import Wanted
from numalign.core.errors import StartError
from numalign.core.host import Host, HostState
from numalign.core.node_fit import Totals
from numalign.core.pod import Pod
from numalign.core.sets import mask_of
from numalign.core.situation import refusal, verdict_on
from numalign.core.state import Block, CpuState, MemoryState


@dataclass(slots=True)
class _Known:
    """One host."""

    facts: HostFacts | None = None
    topology: HostTopology | None = None
    placed: dict[str, Pod] = field(default_factory=dict)  # in the order of placing
    confirmed: set[str] = field(default_factory=set)  # without a placement: by fingerprint
    built: tuple[Host, HostState, Totals] | None = None
    record: HostRecord | None = None
    is_current: bool = False


class PlainJudge:
    """Slow and obvious; the same verdicts as any faster one must give."""

    def __init__(self, *, is_exact: bool, strategy: Strategy) -> None:
        self._is_exact = is_exact
        self._strategy = strategy
        self._hosts: dict[str, _Known] = {}

    def _host(self, name: str) -> _Known:
        found = self._hosts.setdefault(name, _Known())
        found.is_current = False
        return found

    def host_changed(self, facts: HostFacts) -> None:
        """A host is new or other than before."""
        self._host(facts.name).facts = facts

    def host_gone(self, name: str) -> None:
        """A host is gone."""
        self._host(name).facts = None
        self._forget(name)

    def topology_changed(self, topology: HostTopology) -> None:
        """A host published something."""
        known = self._host(topology.name)
        known.topology = topology
        names = ((pod.namespace, pod.name) for pod in known.placed.values())
        if topology.fingerprint in (None, fingerprint.fingerprint(names)):
            known.confirmed = set(known.placed)

    def topology_gone(self, name: str) -> None:
        """A host publishes nothing any more."""
        self._host(name).topology = None
        self._forget(name)

    def _forget(self, name: str) -> None:
        known = self._hosts[name]
        if known.facts is None and known.topology is None and not known.placed:
            del self._hosts[name]

    def pod_placed(self, host: str, pod: Pod) -> None:
        """A pod is, or will be, on a host."""
        self._host(host).placed[pod.uid] = pod

    def pod_gone(self, host: str, uid: str) -> None:
        """A pod is not on a host any more."""
        known = self._host(host)
        known.placed.pop(uid, None)
        known.confirmed.discard(uid)
        self._forget(host)

    # Verdicts.

    def refusal(self, pod: Pod, host: str) -> Refusal | None:
        """Why this host would not take the pod; None if it would."""
        known = self._current(host)
        if known is None:
            return None
        if known.built is not None:
            return _exact_refusal(known, pod)
        return _common_refusal(known.record, need_of(pod))

    def refusals(self, pod: Pod, hosts: Collection[str]) -> Mapping[str, Refusal]:
        """Which of these hosts would not take the pod."""
        found = {name: self.refusal(pod, name) for name in hosts}
        return {name: refused for name, refused in found.items() if refused is not None}

    def scores(self, pod: Pod, hosts: Sequence[str]) -> Mapping[str, int]:
        """How good hosts are for a pod."""
        need = need_of(pod)
        return {name: self._score(name, need) for name in hosts}

    def _score(self, name: str, need: PodNeed) -> int:
        known = self._current(name)
        if known is None or known.record is None:
            return 0
        return match.score(known.record, need, self._strategy, {})

    def choose(self, pod: Pod, is_allowed: Callable[[str], bool]) -> str | None:
        """The best host that would take the pod, among those allowed."""
        need = need_of(pod)
        names = [name for name in self._hosts if is_allowed(name)]
        for name in sorted(names, key=lambda n: (-self._score(n, need), n)):
            if self.refusal(pod, name) is None:
                return name
        return None

    def fits_without(self, pod: Pod, host: str, victims: Collection[str]) -> bool:
        """Whether the host would take the pod once these pods are gone."""
        known = self._current(host)
        if known is None or known.built is None:
            return True  # nothing to say against it
        built, state, totals = known.built
        for uid in victims:
            state = hosts.ended(state, uid)
        return _exact_refusal(replace(known, built=(built, state, totals)), pod) is None

    # What a host looks like now.

    def _current(self, name: str) -> _Known | None:
        known = self._hosts.get(name)
        if known is None:
            return None
        if not known.is_current:
            known.is_current = True
            known.built = self._built(known) if self._is_exact else None
            known.record = _record(name, known)
        return known

    def _built(self, known: _Known) -> tuple[Host, HostState, Totals] | None:
        placement = known.topology.placement if known.topology is not None else None
        if placement is None:
            return None
        try:
            host, state = rebuilt(placement, known.placed.values())
        except StartError:
            return None
        totals = node_fit.allocatable(
            placement.settings, placement.machine, pods_max=placement.pods_max
        )
        for pod in _unpublished(known, placement):
            state, _ = verdict_on(host, state, totals, pod)
        return host, state, totals


def _unpublished(known: _Known, placement: PublishedPlacement) -> list[Pod]:
    published = {pod.key: pod.uid for pod in placement.pods}
    return [
        pod
        for pod in known.placed.values()
        if published.get((pod.namespace, pod.name)) not in ("", pod.uid)
    ]


def _exact_refusal(known: _Known, pod: Pod) -> Refusal | None:
    assert known.built is not None, "asked only where it is built"
    host, state, totals = known.built
    _, verdict = verdict_on(host, state, totals, pod)
    refused = refusal(verdict)
    if refused is None:
        return None
    _, when_empty = verdict_on(host, _empty(host, state), totals, pod)
    reason, message = refused
    return Refusal(f"{reason}: {message}", refusal(when_empty) is not None)


def _empty(host: Host, state: HostState) -> HostState:
    start = hosts.start(host)
    devices = device_rules.DeviceState()
    for name, resource in state.devices.resources.items():
        devices = device_rules.with_reported(devices, name, resource)
    return replace(start, devices=devices)


def _common_refusal(record: HostRecord | None, need: PodNeed) -> Refusal | None:
    if record is None:
        return None
    why = match.filtered(record, need).why
    return None if why is Why.FITS else Refusal(WORDS[why])


def _record(name: str, known: _Known) -> HostRecord:
    allocatable = known.facts.allocatable if known.facts is not None else ()
    record = record_of(name, known.topology, allocatable)
    placement = known.topology.placement if known.topology is not None else None
    if placement is not None:
        left = _unpublished(known, placement)
    else:
        left = [pod for uid, pod in known.placed.items() if uid not in known.confirmed]
    return reserved_everywhere(record, (need_of(pod).total for pod in left))


def rebuilt(placement: PublishedPlacement, known: Collection[Pod]) -> tuple[Host, HostState]:
    """The host at the moment of publishing; pods that nobody knows count with what they hold."""
    host = hosts.build(placement.settings, placement.machine)
    by_key = {(pod.namespace, pod.name): pod for pod in known}
    by_uid = {pod.uid: pod for pod in known}
    pods: dict[str, Pod] = {}
    cpus: dict[str, dict[str, int]] = {}
    memory: dict[str, dict[str, tuple[Block, ...]]] = {}
    state = hosts.start(host)
    accounts = dict(state.memory.machine)
    devices = state.devices
    for name, found in placement.devices.items():
        devices = device_rules.with_reported(devices, name, device_rules.device_resource(found))
    for placed in placement.pods:
        pod = by_uid.get(placed.uid) or by_key.get(placed.key)
        uid = placed.uid or (pod.uid if pod is not None else f"{placed.namespace}/{placed.name}")
        pods[uid] = pod if pod is not None else Pod(uid, placed.name, placed.namespace)
        for part in placed.containers:
            if part.cpus:
                cpus.setdefault(uid, {})[part.name] = part.cpus
            if part.memory:
                memory.setdefault(uid, {})[part.name] = part.memory
                for block in part.memory:
                    accounts = memory_static.charged(
                        accounts, mask_of(block.nodes), {block.type: block.size}, {}
                    )
            for name, ids in part.devices.items():
                if name in devices.resources:
                    devices = device_rules.with_held(
                        devices, Wanted(uid, part.name, name, len(ids)), tuple(ids)
                    )
    return host, replace(
        state,
        cpu=CpuState(state.cpu.policy, placement.shared_cpus or state.cpu.shared, cpus),
        memory=MemoryState(state.memory.policy, accounts, memory),
        devices=devices,
        pods=pods,
        unchecked=False,
    )
