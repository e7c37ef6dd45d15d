"""What the scheduler knows of a cluster.

The state is changed in place, by the one loop that owns it: a copy of 5,000 hosts and 50,000 pods
for every event would cost more than all decisions. Nothing in it depends on time, chance or I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from numalign.apps.scheduler.events import Bind, BindWanted, Placing, Release
from numalign.apps.scheduler.room.model import Gangs, Room
from numalign.core.cluster.between_pods.neighbours import Guard, Located, Neighbours, Newcomer
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts, HostRequirements, objection
from numalign.core.cluster.scheduling.ledger import Held
from numalign.core.cluster.scheduling.queue import Queue
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.cluster.scheduling.totals import HostUse, requests_of
from numalign.core.pod import Pod
from numalign.wire.kubernetes.extender import SCORE_MAX, Filtered
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

    def changes_missed(self, unbound: Collection[str] = ()) -> None:
        """Pods may have come and gone without our knowledge: there was a list.

        No kubelet has seen the unbound ones: what was gone when they were listed is gone for them.
        """

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

    def takes(self, pod: Pod, host: str, gone: Collection[str] = (), held: Held = ()) -> bool:
        """The same, proven, and whether the host then still takes those it is held for."""

    def nodes_of(self, host: str, uid: str) -> int:
        """The NUMA nodes on which a pod holds something, as a mask."""

    def mark(self, host: str) -> object:
        """What is known of a host now."""

    def restore(self, host: str, mark: object) -> None:
        """Takes back all pods that were placed since."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying pods of one class, and how the cluster was numbered then."""

    generation: int
    message: str


@dataclass(slots=True)
class PrePlacing:
    """What a scheduler knows that opens gates, besides the cluster."""

    open_after_seconds: float | None = None  # then a gate is opened that nobody decided about
    gated_since: dict[str, float] = field(default_factory=dict)  # uid -> when; the oldest first
    # Pods that a kube-scheduler says it cannot place on the host that we left them, and since when.
    unfollowed: dict[str, float] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)  # pinned, and their room is free for others
    avoided: dict[str, Avoided] = field(default_factory=dict)  # by owner


@dataclass(frozen=True, slots=True)
class Avoided:
    """The hosts that pods of one owner do not get, and until when."""

    hosts: Mapping[str, float]
    failures: int


@dataclass(slots=True)
class RefusedPod:
    """A pod that a kube-scheduler asked about, and no host took."""

    pod: ClusterPod
    generation: int  # of the cluster when it was refused
    due: float  # not touched before
    times: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a kube-scheduler was told about these hosts, and how the cluster was numbered then."""

    version: tuple[int, int]
    names: tuple[str, ...]
    found: Filtered


@dataclass(slots=True)
class State:
    """A cluster as one scheduler sees it."""

    fleet: HostFleet
    name: str = SCHEDULER_NAME  # of the scheduler whose pods are ours
    is_extender: bool = False  # a kube-scheduler decides, and tells pods what came of it
    is_reserving: bool = False  # extender: the best host alone is the answer, and is kept for it
    is_strict: bool = False  # extender: hosts that we know nothing of are refused
    score_max: int = SCORE_MAX  # extender: the highest score that is given
    pre: PrePlacing | None = None  # gates are opened, instead of pods bound
    makes_room: bool = True  # pods of lower priority may be evicted
    binds_max: int = BINDS_MAX
    hosts: dict[str, HostFacts] = field(default_factory=dict)
    topologies: dict[str, HostTopology] = field(default_factory=dict)
    use: dict[str, HostUse] = field(default_factory=dict)
    pods: dict[str, ClusterPod] = field(default_factory=dict)  # that have not ended, by uid
    placed: dict[str, str] = field(default_factory=dict)  # uid -> host, bound or assumed
    assumed: set[str] = field(default_factory=set)  # placed by us, and not yet seen so
    binds: dict[str, list[Placing]] = field(default_factory=dict)  # by host; the first is under way
    queue: Queue = field(default_factory=Queue)
    told: dict[str, str] = field(default_factory=dict)  # uid -> what its last event said
    synced: set[str] = field(default_factory=set)  # kinds of which there was a list
    is_leading: bool = False
    is_elected: bool = False  # and leading as soon as all pods were listed since
    term: int = 0  # how often this replica was elected
    fetching: dict[int, BindWanted] = field(default_factory=dict)  # by ticket
    asked_binds: dict[str, list[int]] = field(default_factory=dict)  # uid -> tickets
    reserved: dict[str, float] = field(default_factory=dict)  # assumed by an answer, until when
    refused: dict[str, RefusedPod] = field(default_factory=dict)  # by uid
    answers: dict[object, Answer] = field(default_factory=dict)  # by the class of the pod
    generation: int = 0  # higher after every change that may help a pod
    harms: int = 0  # and this one after every change that may harm one
    tried: dict[object, Tried] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    room: Room = field(default_factory=Room)
    gangs: Gangs = field(default_factory=Gangs)
    priorities: dict[int, int] = field(default_factory=dict)  # how many placed pods have each
    has_helper: bool = False  # a pod came that others may want to be near, or to be even with
    _priority_of: dict[str, int] = field(default_factory=dict)  # of placed pods
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
        self.harms += 1
        before = self.placed.get(uid)
        if before is not None and before != host:
            self.unplace(uid)
        if before != host:
            self.priorities[pod.priority] = self.priorities.get(pod.priority, 0) + 1
            self._priority_of[uid] = pod.priority
        self.placed[uid] = host
        self.use.setdefault(host, HostUse()).add(uid, requests_of(pod.pod), pod.requirements.ports)
        self.fleet.pod_placed(host, pod.pod)
        self.tell_neighbours(pod, host)

    def tell_neighbours(self, pod: ClusterPod, host: str) -> None:
        """A pod is on a host, or other than before: rules of other pods may speak of it."""
        if self.is_extender:
            return  # a kube-scheduler looks after rules between pods
        is_repelling = pod.rules is not None and pod.rules.anti_affinity
        if (is_repelling or self.neighbours.is_counting) and self.neighbours.came(
            _located(pod, host)
        ):
            self.generation += 1
            self.has_helper = True

    def guard(self, pod: ClusterPod, without: Collection[str] = ()) -> Guard | None:
        """Which hosts other pods leave to this one; None: all.

        The pods of ``without`` are taken for gone.
        """
        if pod.rules is None and not self.neighbours.repels:
            return None
        core = pod.pod
        newcomer = Newcomer(core.uid, core.namespace, pod.labels, pod.requirements, pod.rules)
        return self.neighbours.guard(newcomer, self.hosts, self._everyone, without)

    def _everyone(self) -> Iterator[Located]:
        for uid, host in self.placed.items():
            pod = self.pods.get(uid)
            if pod is not None:
                yield _located(pod, host)

    def unplace(self, uid: str) -> None:
        """Counts a pod nowhere."""
        host = self.placed.pop(uid, None)
        self.assumed.discard(uid)
        if host is None:
            return
        priority = self._priority_of.pop(uid)
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]
        use = self.use[host]
        use.remove(uid)
        if not use.pods and host not in self.hosts:
            del self.use[host]
        self.fleet.pod_gone(host, uid)
        if self.neighbours.is_counting:
            self.neighbours.went(uid)

    def assume(self, pod: ClusterPod, host: str) -> list[Placing]:
        """Counts a pod on a host and sends it there, after those that the host was given before.

        A kubelet admits pods in the order in which they are bound, and its choice depends on it.
        """
        self.place(pod, host)
        self.assumed.add(pod.pod.uid)
        bind = Bind(pod, host) if self.pre is None else Release(pod, host)
        waiting = self.binds.setdefault(host, [])
        waiting.append(bind)
        return [bind] if len(waiting) == 1 else []

    def next_bind(self, host: str) -> list[Placing]:
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

    @property
    def version(self) -> tuple[int, int]:
        """The same as long as no host would say anything else to any pod."""
        return self.generation, self.harms

    def remember(self, key: object, message: str) -> None:
        """Pods of this class find no host as long as nothing changes for the better."""
        if len(self.tried) >= CLASSES_KEPT_MAX:
            self.tried.clear()
        self.tried[key] = Tried(self.generation, message)


def _located(pod: ClusterPod, host: str) -> Located:
    core = pod.pod
    repels = pod.rules.anti_affinity if pod.rules is not None else ()
    return Located(core.uid, host, core.namespace, pod.labels, pod.is_deleted, repels)
