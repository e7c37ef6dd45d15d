"""All hosts of a cluster: which of them takes a pod, and which is best.

Events go in (hosts, what they publish, pods that come and go), verdicts come out. There are two
levels. By the common rules (``columns``) one pod is compared with all hosts at once, as the
NodeResourceTopologyMatch plugin would. A host that publishes its exact placement is asked exactly
(``ledger``): its managers are rebuilt and decide, for every policy and scope. The common rules then
only say in which order hosts are tried.

A pod counts on its host from the moment it is placed until it goes: as part of what the host
publishes once that is confirmed (by the placement, or by the fingerprint of its pods), and as a
reservation before. Nothing here waits for time to pass.

The one object that changes; owned by one loop. It has no clock, so the same events give the same
choices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final, Generic, TypeVar

import numpy as np

from numalign.core.cluster.nrt_match.columns import Columns, Ints
from numalign.core.cluster.nrt_match.evaluate import Evaluation, Evaluator
from numalign.core.cluster.nrt_match.match import Strategy, Weights
from numalign.core.cluster.nrt_match.need import NANOS, PodNeed, need_of
from numalign.core.cluster.nrt_match.record import (
    HostRecord,
    ZoneRecord,
    record_of,
    reserved_everywhere,
)
from numalign.core.cluster.publish.zones import SINGLE_NUMA_NODE, HostTopology
from numalign.core.cluster.scheduling import confirm, fragmentation, ledger, refusals
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.fragmentation import Packing
from numalign.core.cluster.scheduling.interleavings import Departure, PodClass, class_of
from numalign.core.cluster.scheduling.ledger import Ledger
from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node, nodes_held, rebuilt
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod, is_memory_type

# How many hosts that take a pod are looked for before the best of them is chosen. A kube-scheduler
# looks for at least 100 because it scores after it filters; here hosts are tried best first. With a
# packing the order in which they are tried is only a guess, so more are compared.
ENOUGH: Final = 8
ENOUGH_TO_PACK: Final = 32
# What becomes useless to a mix cannot be guessed from what is free, so many more are compared.
ENOUGH_FOR_A_MIX: Final = 512
_FIRST_TRIED: Final = 256
_SHAPES_KEPT_MAX: Final = 64
_SHAPES_NUMBERED_MAX: Final = 4_096
_GONE_KEPT_MAX: Final = 32  # of one host
_GUESSES: Final[Mapping[Packing, Strategy]] = {
    Packing.KEEP_WHOLE: Strategy.MOST_ALLOCATED,
    Packing.SPREAD: Strategy.LEAST_ALLOCATED,
    Packing.FRAGMENTATION: Strategy.MOST_ALLOCATED,
}

# How good it is for a host to go from one state to the next, 0 to 100.
Growth = Callable[[Frame, HostState, HostState], int]


T = TypeVar("T")


@dataclass(slots=True)
class _Judged:
    """What a host says to pods of one class."""

    refusal: Refusal | None
    is_aligned: bool = True
    packed: int = 0
    survives_exits: bool | None = None  # takes it whoever ends in the meantime; None: not looked at


@dataclass(slots=True)
class _Known:
    name: str
    facts: HostFacts | None = None
    topology: HostTopology | None = None
    pods: dict[str, Pod] = field(default_factory=dict)  # in the order in which they came
    confirmed: dict[str, int] = field(default_factory=dict)  # uid -> publications seen since
    # Pods that went, the last ones last. What a host publishes may be older than what we have
    # heard, and a pod may even appear in it for the first time after it went.
    gone: dict[str, Departure] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)  # found in a list, and not published then
    ledger: Ledger | None = None
    base: HostRecord | None = None  # as published
    record: HostRecord | None = None  # as it is now
    judged: dict[int, _Judged] = field(default_factory=dict)  # by the number of a class


@dataclass(frozen=True, slots=True)
class _Mark:
    pods: dict[str, Pod]
    confirmed: dict[str, int]
    gone: dict[str, Departure]
    doubtful: set[str]
    ledger: Ledger | None


class _PerFrame(Generic[T]):
    """Answers that are the same for all hosts of one frame, by the classes of the pods."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], tuple[Frame, T]] = {}

    def get(
        self, frame: Frame, pod_class: int, ask: Callable[[], T], others: Iterable[int] = ()
    ) -> T:
        key = (id(frame), pod_class, *others)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not frame:  # the number of a frame that is gone comes again
            if len(self._kept) >= _SHAPES_NUMBERED_MAX:
                self._kept.clear()
            kept = self._kept[key] = (frame, ask())
        return kept[1]


class Fleet:
    """What is known of NUMA on all hosts, and the verdicts from it."""

    def __init__(
        self,
        *,
        is_exact: bool = True,
        strategy: Strategy = Strategy.LEAST_ALLOCATED,
        weights: Weights | None = None,
        pack: Packing | None = None,
        growth: Growth | None = None,
        waits_for_publication: bool = False,
    ) -> None:
        """``growth`` is what ``Packing.FRAGMENTATION`` scores by.

        With ``waits_for_publication`` a host gets no pod that its managers place while another one
        is not published. A pod that ends unheard of can then hardly lead to a refusal.
        """
        self._waits_for_publication = waits_for_publication
        self._is_exact = is_exact
        self._packing = pack
        self._growth = growth
        self._enough = ENOUGH if pack is None else ENOUGH_TO_PACK
        if pack is Packing.FRAGMENTATION:
            self._enough = ENOUGH_FOR_A_MIX
        strategy = strategy if pack is None else _GUESSES[pack]
        self._hosts: dict[str, _Known] = {}
        self._columns = Columns()
        self._evaluator = Evaluator(self._columns, strategy, weights or {})
        self._hopeless: _PerFrame[bool] = _PerFrame()
        self._of_empty: _PerFrame[_Judged] = _PerFrame()
        self._behind: set[int] = set()  # slots of hosts that must publish before they take much
        self._classes: dict[PodClass, int] = {}
        self._classes_seen = 0
        self._asked: tuple[Pod | None, int] = (None, 0)  # the last pod, and the number of its class

    # Events.

    def host_changed(self, facts: HostFacts) -> None:
        known = self._known(facts.name)
        before, known.facts = known.facts, facts
        if before is None or before.allocatable.keys() != facts.allocatable.keys():
            known.base = None
            self._refresh(known)

    def host_gone(self, name: str) -> None:
        known = self._known(name)
        known.facts = known.base = None
        self._refresh(known)

    def topology_changed(self, topology: HostTopology) -> None:
        known = self._known(topology.name)
        known.topology, known.base = topology, None
        placement = topology.placement if self._is_exact else None
        found = rebuilt(placement, known.pods.values()) if placement is not None else None
        if found is None:
            known.ledger = None
            known.confirmed = confirm.by_fingerprint(topology, known.pods, known.confirmed)
        else:
            sure = {u: confirm.SURE for u, n in known.confirmed.items() if n >= confirm.SURE}
            sure |= dict.fromkeys(found.confirmed, confirm.SURE)
            known.confirmed = {uid: sure.get(uid, 0) for uid in known.pods}
            pending = [pod for uid, pod in known.pods.items() if uid not in sure]
            waiting = [pod.uid for pod in pending]
            known.gone = {uid: went.among(waiting) for uid, went in known.gone.items()}
            known.doubtful.intersection_update(waiting)
            known.ledger = ledger.opened(found, pending, known.gone.values(), known.doubtful)
        self._refresh(known)

    def topology_gone(self, name: str) -> None:
        """A host publishes nothing any more."""
        known = self._known(name)
        known.topology = known.ledger = known.base = None
        self._refresh(known)

    def pod_placed(self, host: str, pod: Pod) -> None:
        """A pod is, or will be, on a host; it counts until it is published or gone."""
        known = self._known(host)
        before = known.pods.get(pod.uid)
        known.pods[pod.uid] = pod
        # A pod whose bind failed may come again, under the same uid.
        known.gone.pop(pod.uid, None)
        if before is not None:
            if class_of(before) == class_of(pod):
                return
            if known.topology is not None:
                self.topology_changed(known.topology)
                return
        if known.ledger is not None:
            if pod.uid in known.ledger.base.pods:
                known.confirmed[pod.uid] = confirm.SURE
                known.ledger = ledger.known_as(known.ledger, pod)
            else:
                known.confirmed[pod.uid] = 0
                known.ledger = ledger.came(known.ledger, pod)
        else:
            known.confirmed[pod.uid] = 0
            if known.topology is not None:
                # The host may have published it before we heard of it.
                known.confirmed = confirm.at_once(known.topology, known.pods, known.confirmed)
        self._refresh(known)

    def pod_gone(self, host: str, uid: str) -> None:
        known = self._known(host)
        if known.pods.pop(uid, None) is not None:
            known.confirmed.pop(uid, None)
            known.gone[uid] = Departure(uid)
            if known.ledger is not None:
                known.ledger, known.gone[uid] = ledger.went(known.ledger, uid)
            if len(known.gone) > _GONE_KEPT_MAX:
                del known.gone[next(iter(known.gone))]
        self._refresh(known)

    def changes_missed(self, unbound: Collection[str] = ()) -> None:
        """Pods may have come and gone without our knowledge: there was a list instead of a watch.

        Where a host has not published a pod yet it has to do so before more can be told; but no
        kubelet has seen the unbound ones, so for them all that is not listed is gone for sure.
        """
        for known in self._hosts.values():
            sure = known.confirmed
            known.doubtful = {
                uid for uid in known.pods if sure.get(uid, 0) < confirm.SURE and uid not in unbound
            }
            if known.doubtful and known.ledger is not None:
                known.ledger = ledger.doubted(known.ledger, known.doubtful)
                self._refresh(known)

    def _known(self, name: str) -> _Known:
        return self._hosts.setdefault(name, _Known(name))

    def _refresh(self, known: _Known) -> None:
        known.judged.clear()
        if known.facts is None:
            known.record = None
            slot = self._columns.slot(known.name)
            self._behind.discard(-1 if slot is None else slot)
            self._columns.remove(known.name)
            if known.topology is None and not known.pods:
                del self._hosts[known.name]
            return
        if known.base is None:
            known.base = record_of(known.name, known.topology, known.facts.allocatable)
        if known.ledger is not None:
            known.record = _exact_record(known.base, known.ledger)
        else:
            sure = known.confirmed
            left = (pod for uid, pod in known.pods.items() if sure.get(uid, 0) < confirm.SURE)
            known.record = reserved_everywhere(known.base, (need_of(pod).total for pod in left))
        slot = self._columns.put(known.record)
        is_behind = known.ledger is not None and ledger.must_publish_soon(known.ledger)
        (self._behind.add if is_behind else self._behind.discard)(slot)

    def states(self, host: str) -> tuple[HostState, ...]:
        """The states in which a host may be, where it publishes its placement."""
        known = self._hosts.get(host)
        return () if known is None or known.ledger is None else known.ledger.states

    def frame_and_state(self, host: str) -> tuple[Frame, HostState] | None:
        """The managers of a host and what they hold, where that is known for sure."""
        known = self._hosts.get(host)
        if known is None or known.ledger is None or not known.ledger.states:
            return None
        return known.ledger.frame, known.ledger.states[0]

    # Verdicts.

    def refusal(self, pod: Pod, host: str) -> Refusal | None:
        """Why this host would not take the pod; None if it would."""
        known = self._hosts.get(host)
        if known is None or known.record is None:
            return None
        if known.ledger is not None:
            return self._judged(known, pod).refusal
        return refusals.common(known.record, need_of(pod))

    def refusals(self, pod: Pod, hosts: Collection[str]) -> Mapping[str, Refusal]:
        found: dict[str, Refusal] = {}
        fitting = self._evaluator.evaluated(need_of(pod)).fitting.tolist()
        for name in hosts:
            known = self._hosts.get(name)
            slot = self._columns.slot(name)
            if known is None or slot is None:
                continue
            if known.ledger is None and fitting[slot]:
                continue
            refused = self.refusal(pod, name)
            if refused is not None:
                found[name] = refused
        return found

    def scores(self, pod: Pod, hosts: Sequence[str]) -> Mapping[str, int]:
        """How good hosts are for a pod, 0 to 100."""
        need = need_of(pod)
        evaluation = self._evaluator.evaluated(need)
        found: dict[str, int] = {}
        for name in hosts:
            slot = self._columns.slot(name)
            found[name] = 0 if slot is None else self._score(slot, evaluation, pod, need)
        if len(pod.in_order) > 1:
            for name in nlargest(self._enough, found, key=found.__getitem__):
                if name in self._hosts:
                    found[name] = self._foreseen(name, pod, found[name])
        return found

    def choose(self, pod: Pod, is_allowed: Callable[[str], bool]) -> str | None:
        """The best host that would take the pod, among those allowed."""
        need = need_of(pod)
        evaluation = self._evaluator.evaluated(need)
        fitting, score_max = evaluation.fitting, self._score_max(evaluation)
        best: tuple[int, str] | None = None
        count = 0
        for slot in self._in_order(evaluation):
            record = self._columns.record(slot)
            assert record is not None, f"slot {slot} of the columns is vacant"
            known = self._hosts[record.name]
            if known.ledger is None and not fitting[slot]:
                continue
            if not is_allowed(record.name):
                continue
            if known.ledger is not None and self._judged(known, pod).refusal is not None:
                continue
            score = self._foreseen(record.name, pod, self._score(slot, evaluation, pod, need))
            if best is None or score > best[0]:
                best = (score, record.name)
            count += 1
            if count >= self._enough or score == score_max:
                break
        return None if best is None else best[1]

    def fits_without(self, pod: Pod, host: str, victims: Collection[str]) -> bool:
        """Whether the host would take the pod once these pods are gone."""
        known = self._hosts.get(host)
        if known is None or known.ledger is None:
            return True  # nothing is known against it
        verdict, _ = ledger.checked(ledger.without(known.ledger, victims), pod)
        return isinstance(verdict, Admitted)

    def takes(
        self, pod: Pod, host: str, gone: Collection[str] = (), held: ledger.Held = ()
    ) -> bool:
        """Whether the host would take the pod once others are gone, and still those held for."""
        known = self._hosts.get(host)
        if known is None or known.ledger is None:
            # Nobody knows what the others hold there: their end helps no NUMA node for sure.
            return self.refusal(pod, host) is None
        return ledger.takes(known.ledger, pod, gone, held)

    def nodes_of(self, host: str, uid: str) -> int:
        """The NUMA nodes on which a pod holds CPUs or memory, as a mask; 0 if that is not known."""
        known = self._hosts.get(host)
        if known is None or known.ledger is None:
            return 0
        book = known.ledger
        return nodes_held(book.frame, (*book.states, book.base)[0], uid)

    # A decision about several pods that comes to nothing leaves no trace.

    def mark(self, host: str) -> object:
        """What is known of a host now, for ``restore``."""
        known = self._known(host)
        return _Mark(
            dict(known.pods), dict(known.confirmed), dict(known.gone), set(known.doubtful),
            known.ledger,
        )  # fmt: skip

    def restore(self, host: str, mark: object) -> None:
        """Takes back all pods that were placed since, as if nobody had thought of it."""
        assert isinstance(mark, _Mark), "only what mark gave can be restored"
        known = self._known(host)
        known.pods, known.confirmed, known.gone = mark.pods, mark.confirmed, mark.gone
        known.doubtful, known.ledger = mark.doubtful, mark.ledger
        self._refresh(known)

    def _in_order(self, evaluation: Evaluation) -> Iterator[int]:
        """All hosts, the most promising first: those that fit by the common rules, by score."""
        keys = evaluation.scores + np.where(evaluation.fitting, 1_000, 0)
        if self._packing is None and self._behind:
            keys[list(self._behind)] -= 200  # last among those that fit
            np.maximum(keys, 0, out=keys)
        keys[evaluation.whys < 0] = -1
        # The first one suffices nearly always; it is also the first one of the order below.
        best = int(keys.argmax()) if len(keys) else -1
        if best >= 0 and keys[best] >= 0:
            yield best
            yield from (slot for slot in self._all_in_order(keys) if slot != best)

    def _all_in_order(self, keys: Ints) -> Iterator[int]:
        """The slots by key, the order among equals being their own; none with a key below 0."""
        count = int(np.count_nonzero(keys >= 0))
        if count > 2 * _FIRST_TRIED:
            # The best few suffice nearly always.
            border = np.partition(keys, -_FIRST_TRIED)[-_FIRST_TRIED]
            first = np.flatnonzero(keys > border)
            yield from first[np.argsort(-keys[first], kind="stable")].tolist()
            rest = np.flatnonzero((keys <= border) & (keys >= 0))
            yield from rest[np.argsort(-keys[rest], kind="stable")].tolist()
        else:
            yield from np.argsort(-keys, kind="stable")[:count].tolist()

    def _score_max(self, evaluation: Evaluation) -> int | None:
        """What no host can be better than; None where that is not told in advance."""
        if self._packing is not None or not len(evaluation.scores):
            return None
        by_rules = int(evaluation.scores.max())
        return _aligned(by_rules) if self._is_exact else by_rules

    def _score(self, slot: int, evaluation: Evaluation, pod: Pod, need: PodNeed) -> int:
        record = self._columns.record(slot)
        if record is None:
            return 0
        known = self._hosts[record.name]
        score = int(evaluation.scores[slot])
        if known.ledger is None:
            if self._packing is None:
                return score
            return fragmentation.common_score(self._packing, record, need)
        judged = self._judged(known, pod)
        if self._packing is not None:
            score = judged.packed
        # A host that would take the pod apart comes after every host that would not.
        return _aligned(score) if judged.is_aligned else score // 4

    def _foreseen(self, host: str, pod: Pod, score: int) -> int:
        """The score, or half of it if the host might refuse the pod when another one ended now.

        That costs a decision for each pod there, so only the best hosts are asked.
        """
        known = self._hosts[host]
        if known.ledger is None:
            return score
        judged = self._judged(known, pod)
        if judged.survives_exits is None:
            judged.survives_exits = ledger.survives_exits(known.ledger, pod)
        return score if judged.survives_exits else score // 2

    def _class_number(self, pod: Pod) -> int:
        """The number of a pod's class; one pod is asked about on many hosts in a row."""
        if pod is not self._asked[0]:
            self._asked = (pod, self._number(class_of(pod)))
        return self._asked[1]

    def _number(self, pod_class: PodClass) -> int:
        found = self._classes.get(pod_class)
        if found is None:
            if len(self._classes) >= _SHAPES_NUMBERED_MAX:
                self._classes.clear()
            self._classes_seen += 1  # a number is never used again
            found = self._classes[pod_class] = self._classes_seen
        return found

    def _judged(self, known: _Known, pod: Pod) -> _Judged:
        pod_class = self._class_number(pod)
        found = known.judged.get(pod_class)
        if found is None:
            if len(known.judged) >= _SHAPES_KEPT_MAX:
                known.judged.clear()
            found = known.judged[pod_class] = self._judge_shared(known, pod, pod_class)
        return found

    def _judge_shared(self, known: _Known, pod: Pod, pod_class: int) -> _Judged:
        """As ``_judge``; hosts that published nothing on them are asked once for all.

        If pods of the same classes are on their way to them, that is: in a burst one host of many
        is asked.
        """
        assert known.ledger is not None, "only hosts with a placement are asked exactly"
        book = known.ledger
        base = book.base
        held = (base.pods, base.cpu.entries, base.memory.entries, base.devices.entries, base.gone)
        if any(held) or book.gone or book.doubtful:
            return self._judge(known, pod, pod_class)
        on_their_way = sorted(self._number(class_of(other)) for other in book.pending)
        return self._of_empty.get(
            book.frame, pod_class, lambda: self._judge(known, pod, pod_class), on_their_way
        )

    def _judge(self, known: _Known, pod: Pod, pod_class: int) -> _Judged:
        assert known.ledger is not None, "only hosts with a placement are asked exactly"
        book = known.ledger
        if self._waits_for_publication and ledger.is_waiting_for(book, pod):
            return _Judged(refusals.exact(book, pod, None, is_hopeless=False))
        verdict, after = ledger.checked(book, pod)
        if not isinstance(verdict, Admitted):
            is_hopeless = verdict is not None and self._is_hopeless(book, pod, pod_class)
            return _Judged(refusals.exact(book, pod, verdict, is_hopeless=is_hopeless))
        hints = [placement.hint for placement in verdict.placements]
        is_aligned = all(hint.preferred or hint.nodes is None for hint in hints)
        packed = 0
        if self._packing is Packing.FRAGMENTATION and self._growth is not None:
            packed = self._growth(book.frame, book.states[0], after[0])
        elif self._packing is not None:
            free = [fragmentation.free_cpus(book.frame, s) for s in (book.states[0], after[0])]
            packed = fragmentation.score(self._packing, *free)
        return _Judged(None, is_aligned, packed)

    def _is_hopeless(self, book: Ledger, pod: Pod, pod_class: int) -> bool:
        frame = book.frame

        def ask() -> bool:
            _, verdict = verdict_on(frame.host, frame.empty, frame.totals, pod)
            return not isinstance(verdict, Admitted)

        return self._hopeless.get(frame, pod_class, ask)


def _aligned(score: int) -> int:
    return 50 + score // 2


def _exact_record(record: HostRecord, book: Ledger) -> HostRecord:
    """The record from which hosts with a ledger are put in order: the least that is free."""
    states = book.states
    free = [free_by_node(book.frame, state) for state in states or (book.base,)]
    costs = {zone.node: zone.costs for zone in record.zones or ()}
    # Memory that no manager binds to a node is there for every node.
    shared = {
        name: amount * NANOS for name, amount in book.frame.totals.items() if is_memory_type(name)
    }
    zones = tuple(
        ZoneRecord(node, shared | _least(free, node), costs.get(node, {}))
        for node in sorted(free[0])
    )
    # Whatever the policy: a host that could hold the pod in one node is the first to be asked.
    config = replace(
        record.config, policy=SINGLE_NUMA_NODE, scope=book.frame.host.settings.topology_scope
    )
    return HostRecord(record.name, config, zones, record.offered, bool(states))


def _least(free: Iterable[Mapping[int, Mapping[str, int]]], node: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for by_node in free:
        for name, amount in by_node[node].items():
            found[name] = min(found.get(name, amount), amount)
    return {name: amount // NANOS * NANOS for name, amount in found.items()}
