"""What the scheduler knows of a cluster.

The state is changed in place, by the one loop that owns it: a copy of 5,000 hosts and 50,000 pods
for every event would cost more than all decisions. Nothing in it depends on time, chance or I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from numalign.apps.scheduler.events import Bind, BindWanted
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts, HostRequirements, objection
from numalign.core.cluster.scheduling.queue import Queue
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.cluster.scheduling.totals import HostUse, requests_of
from numalign.core.pod import Pod
from numalign.wire.kubernetes.extender import SCORE_MAX
from numalign.wire.kubernetes.scheduling import ClusterPod

SCHEDULER_NAME: Final = "numalign"
PODS, HOSTS, TOPOLOGIES = "pods", "hosts", "topologies"
BINDS_MAX: Final = 32  # under way when another pod is decided
REQUIREMENTS_KEPT_MAX: Final = 256
CLASSES_KEPT_MAX: Final = 1_024


class HostFleet(Protocol):
    """What the step needs of a fleet: NUMA on all hosts, and the verdicts from it."""

    def host_changed(self, facts: HostFacts) -> None:
        """A host is new or other than before."""

    def host_gone(self, name: str) -> None:
        """A host is gone."""

    def topology_changed(self, topology: HostTopology) -> None:
        """A host published something."""

    def topology_gone(self, name: str) -> None:
        """A host publishes nothing any more."""

    def pod_placed(self, host: str, pod: Pod) -> None:
        """A pod is, or will be, on a host; it counts until it is published or gone."""

    def pod_gone(self, host: str, uid: str) -> None:
        """A pod is not on a host any more."""

    def changes_missed(self) -> None:
        """Pods may have come and gone without our knowledge: there was a list."""

    def refusal(self, pod: Pod, host: str) -> Refusal | None:
        """Why this host would not take the pod; None if it would."""

    def refusals(self, pod: Pod, hosts: Collection[str]) -> Mapping[str, Refusal]:
        """Which of these hosts would not take the pod."""

    def scores(self, pod: Pod, hosts: Sequence[str]) -> Mapping[str, int]:
        """How good hosts are for a pod, 0 to 100."""

    def choose(self, pod: Pod, is_allowed: Callable[[str], bool]) -> str | None:
        """The best host that would take the pod, among those allowed."""

    def fits_without(self, pod: Pod, host: str, victims: Collection[str]) -> bool:
        """Whether the host would take the pod once these pods are gone."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying pods of one class, and how the cluster was numbered then."""

    generation: int
    message: str


@dataclass(slots=True)
class State:
    """A cluster as one scheduler sees it."""

    fleet: HostFleet
    name: str = SCHEDULER_NAME  # of the scheduler whose pods are ours
    is_extender: bool = False  # a kube-scheduler decides, and tells pods what came of it
    is_strict: bool = False  # extender: hosts that we know nothing of are refused
    score_max: int = SCORE_MAX  # extender: the highest score that is given
    binds_max: int = BINDS_MAX
    hosts: dict[str, HostFacts] = field(default_factory=dict)
    topologies: dict[str, HostTopology] = field(default_factory=dict)
    use: dict[str, HostUse] = field(default_factory=dict)
    pods: dict[str, ClusterPod] = field(default_factory=dict)  # that have not ended, by uid
    placed: dict[str, str] = field(default_factory=dict)  # uid -> host, bound or assumed
    assumed: set[str] = field(default_factory=set)  # placed by us, and not yet seen so
    binds: dict[str, list[Bind]] = field(default_factory=dict)  # by host; the first is under way
    queue: Queue = field(default_factory=Queue)
    told: dict[str, str] = field(default_factory=dict)  # uid -> what its last event said
    synced: set[str] = field(default_factory=set)  # kinds of which there was a list
    is_leading: bool = False
    is_elected: bool = False  # and leading as soon as all pods were listed since
    term: int = 0  # how often this replica was elected
    fetching: dict[int, BindWanted] = field(default_factory=dict)  # by ticket
    asked_binds: dict[str, list[int]] = field(default_factory=dict)  # uid -> tickets
    generation: int = 0  # higher after every change that may help a pod
    tried: dict[object, Tried] = field(default_factory=dict)
    _objections: dict[HostRequirements, dict[str, str | None]] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The kinds of objects that are not known yet."""
        return [kind for kind in (PODS, HOSTS, TOPOLOGIES) if kind not in self.synced]

    def objection(self, requirements: HostRequirements, host: HostFacts) -> str | None:
        """As in ``constraints``, kept by requirements: pods of one template ask the same."""
        kept = self._objections.get(requirements)
        if kept is None:
            if len(self._objections) >= REQUIREMENTS_KEPT_MAX:
                self._objections.clear()
            kept = self._objections[requirements] = {}
        if host.name not in kept:
            kept[host.name] = objection(requirements, host)
        return kept[host.name]

    def forget_objections(self, host: str) -> None:
        for kept in self._objections.values():
            kept.pop(host, None)

    def place(self, pod: ClusterPod, host: str) -> None:
        """Counts a pod on a host, and on no other."""
        uid = pod.pod.uid
        before = self.placed.get(uid)
        if before is not None and before != host:
            self.unplace(uid)
        self.placed[uid] = host
        self.use.setdefault(host, HostUse()).add(uid, requests_of(pod.pod), pod.requirements.ports)
        self.fleet.pod_placed(host, pod.pod)

    def unplace(self, uid: str) -> None:
        """Counts a pod nowhere."""
        host = self.placed.pop(uid, None)
        self.assumed.discard(uid)
        if host is None:
            return
        use = self.use[host]
        use.remove(uid)
        if not use.pods and host not in self.hosts:
            del self.use[host]
        self.fleet.pod_gone(host, uid)

    def assume(self, pod: ClusterPod, host: str) -> list[Bind]:
        """Counts a pod on a host and binds it, after the pods that were given to the host before.

        A kubelet admits pods in the order in which they are bound, and its choice depends on it.
        """
        self.place(pod, host)
        self.assumed.add(pod.pod.uid)
        bind = Bind(pod, host)
        waiting = self.binds.setdefault(host, [])
        waiting.append(bind)
        return [bind] if len(waiting) == 1 else []

    def next_bind(self, host: str) -> list[Bind]:
        """A bind has ended: the next one of its host."""
        waiting = self.binds[host]
        del waiting[0]
        if waiting:
            return [waiting[0]]
        del self.binds[host]
        return []

    def helped(self, now: float) -> None:
        """Something changed that may help pods that wait."""
        self.generation += 1
        self.queue.wake(None, now)

    def remember(self, key: object, message: str) -> None:
        """Pods of this class find no host as long as nothing changes for the better."""
        if len(self.tried) >= CLASSES_KEPT_MAX:
            self.tried.clear()
        self.tried[key] = Tried(self.generation, message)
