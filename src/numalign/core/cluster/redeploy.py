"""What to do about pods that a kubelet refused: events in, effects out.

A refused pod is over; only its controller can make another one. A ReplicaSet does so at once, the
scheduler may choose the same host, and so on: hundreds of failed pods in a minute. What stops it is
a scheduling gate on the new pod (see docs/reference/cluster.md for how it gets there): while the
host of the last refusal is avoided and the owner's wait lasts, the gate stays closed. It opens with
a rule against the avoided hosts, which is the one change that Kubernetes allows to such a pod.

Time is an argument; all that is remembered can be read again from the cluster after a restart.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from numalign.core.pod import Pod
from numalign.core.values.token_bucket import TokenBucket

GATE: Final = "numalign.io/redeploy"
TOPOLOGY_REASON: Final = "TopologyAffinityError"
REASONS: Final = frozenset(
    {TOPOLOGY_REASON, "SMTAlignmentError", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory"}
)
# Their pods are none of ours: the host of one is fixed, the other counts its failed pods.
LEFT_ALONE: Final = frozenset({"DaemonSet", "Job", "Node"})
REPLACES_AT_ONCE: Final = "ReplicaSet"
DELETES_ITSELF: Final = "StatefulSet"
OWNERS_MAX: Final = 100_000
AVOIDED_MAX: Final = 100_000

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator can choose."""

    reasons: frozenset[str] = frozenset({TOPOLOGY_REASON})
    namespaces_left_alone: frozenset[str] = frozenset({"kube-system"})
    grace_seconds: float = 30.0  # a refused pod is left for people to look at so long
    keep: int = 1  # of each owner so many of the newest are left for longer
    avoid_seconds: float = 30.0  # at first; doubled with every refusal there
    avoid_seconds_max: float = 600.0
    wait_seconds: float = 5.0  # of an owner at first; doubled with every refusal
    wait_seconds_max: float = 300.0
    refusals_max: int = 5  # of one owner within the window, then we give up for a while
    window_seconds: float = 600.0
    deletions_per_minute_max: float = 120.0
    recreates_bare: bool = False  # all bare pods, not only those that ask for it


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as far as this loop looks at it."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None = None
    shape: str = ""
    host: str = ""
    reason: str = ""  # why it failed; empty while it has not
    message: str = ""
    refused_at: float = 0.0
    is_gated: bool = False  # by our gate
    avoids: tuple[str, ...] = ()  # the hosts that its opened gate rules out
    is_static: bool = False
    is_leaving: bool = False
    wants_recreation: bool = False
    root: str = ""  # of a bare pod that was made again: the uid of the first one

    @property
    def owner_key(self) -> str:
        """What its refusals are counted under."""
        return self.owner.uid if self.owner is not None else self.root or self.uid


# Events.


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods that concern us; others that were known are gone."""

    pods: tuple[SeenPod, ...]
    now: float


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod is new or other than before."""

    pod: SeenPod
    now: float


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod is not there any more."""

    uid: str
    now: float


@dataclass(frozen=True, slots=True)
class HostsKnown:
    """The names of all hosts."""

    hosts: frozenset[str]
    now: float


@dataclass(frozen=True, slots=True)
class HostFreed:
    """A pod that ran on a host has left: there may be room now."""

    host: str
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    now: float


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """Nothing came of an effect on this pod; it is tried again."""

    uid: str
    now: float


Event = PodsListed | PodSeen | PodGone | HostsKnown | HostFreed | EffectFailed | Tick

# Effects.


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this very pod."""

    pod: SeenPod
    why: str


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Take our gate off a pod, and rule out these hosts for it."""

    pod: SeenPod
    avoids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecreatePod:
    """Make a bare pod again, away from these hosts, and delete the refused one after that."""

    pod: SeenPod
    avoids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Write an event about a pod, or (``of_owner``) about its controller."""

    pod: SeenPod
    reason: str
    note: str
    of_owner: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal was counted, for the metrics."""

    pod: SeenPod


Effect = DeletePod | OpenGate | RecreatePod | Tell | Refused

# What is remembered.


@dataclass(frozen=True, slots=True)
class Avoided:
    """One shape on one host."""

    until: float
    times: int
    at: float


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """The refusals of one owner, and since when it is known that we gave up."""

    refusals: tuple[float, ...] = ()
    gave_up_at: float | None = None


@dataclass(frozen=True, slots=True)
class RedeployState:
    """Everything between two events. Mappings keep the order in which things came."""

    refused: Mapping[str, SeenPod] = field(default_factory=dict)
    waiting: Mapping[str, SeenPod] = field(default_factory=dict)  # their gate is closed
    opened: Mapping[str, SeenPod] = field(default_factory=dict)  # with hosts ruled out, unbound
    avoided: Mapping[tuple[str, str], Avoided] = field(default_factory=dict)  # shape, host
    owners: Mapping[str, OwnerRecord] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    done: frozenset[tuple[str, str]] = frozenset()  # uid, and the effect that is under way
    bucket: TokenBucket | None = None

    def avoided_hosts(self, shape: str, now: float) -> list[str]:
        """The hosts that a pod of this shape should not go to now."""
        found = [host for (own, host), a in self.avoided.items() if own == shape and a.until > now]
        return sorted(found)


def shape_of(pod: Pod) -> str:
    """What pods with the same chances on a host have in common: what they ask for, in order."""

    def amounts(of: Mapping[str, object]) -> str:
        return ",".join(f"{name}={amount}" for name, amount in sorted(of.items()))

    parts = [
        f"{'sidecar' if c.is_restartable else 'init' if c.is_init else 'app'}"
        f"({amounts(c.requests)};{amounts(c.limits)})"
        for c in pod.in_order
    ]
    if pod.requests is not None or pod.limits is not None:
        parts.append(f"pod({amounts(pod.requests or {})};{amounts(pod.limits or {})})")
    return "+".join(parts)


def step(rules: Rules, state: RedeployState, event: Event) -> tuple[RedeployState, list[Effect]]:
    """What is known after an event, and what must now be done, in that order."""
    effects: list[Effect] = []
    match event:
        case PodsListed(pods, _):
            there = {pod.uid for pod in pods}
            for uid in [*state.refused, *state.waiting, *state.opened]:
                if uid not in there:
                    state = _without(state, uid)
            state = replace(state, done=frozenset(d for d in state.done if d[0] in there))
            for pod in pods:
                state = _seen(rules, state, pod, event.now, effects)
        case PodSeen(pod, _):
            state = _seen(rules, state, pod, event.now, effects)
        case PodGone(uid, _):
            state = _retried(_without(state, uid), uid)
        case HostsKnown(hosts, _):
            state = replace(state, hosts=hosts)
        case HostFreed(host, _):
            state = _freed(state, host)
        case EffectFailed(uid, _):
            state = _retried(state, uid)
        case Tick(_):
            state = _forgotten(rules, state, event.now)
    return _due(rules, state, event.now, effects), effects


def _without(state: RedeployState, uid: str) -> RedeployState:
    return replace(
        state,
        refused=_less(state.refused, uid),
        waiting=_less(state.waiting, uid),
        opened=_less(state.opened, uid),
    )


def _retried(state: RedeployState, uid: str) -> RedeployState:
    left = frozenset(d for d in state.done if d[0] != uid)
    return state if left == state.done else replace(state, done=left)


def _less(found: Mapping[K, V], key: K) -> Mapping[K, V]:
    return {k: v for k, v in found.items() if k != key} if key in found else found


def _concerns(rules: Rules, pod: SeenPod) -> bool:
    kind = pod.owner.kind if pod.owner is not None else ""
    return not (pod.is_static or pod.namespace in rules.namespaces_left_alone or kind in LEFT_ALONE)


def _seen(
    rules: Rules, state: RedeployState, pod: SeenPod, now: float, effects: list[Effect]
) -> RedeployState:
    was_refused = pod.uid in state.refused
    state = _without(state, pod.uid)
    if not _concerns(rules, pod) or pod.is_leaving:
        return state
    if pod.reason in rules.reasons:
        if not was_refused:
            state = _counted(rules, state, pod, now, effects)
        return replace(state, refused={**state.refused, pod.uid: pod})
    if pod.reason or pod.host:
        return state
    if pod.is_gated:
        return replace(state, waiting={**state.waiting, pod.uid: pod})
    if pod.avoids:
        return replace(state, opened={**state.opened, pod.uid: pod})
    return state


def _counted(
    rules: Rules, state: RedeployState, pod: SeenPod, now: float, effects: list[Effect]
) -> RedeployState:
    """Remembers a refusal: the host is avoided for this shape, the owner waits longer."""
    at = min(pod.refused_at or now, now)
    key = pod.shape, pod.host
    before = state.avoided.get(key)
    times = before.times + 1 if before is not None else 1
    wait = min(rules.avoid_seconds_max, rules.avoid_seconds * 2.0 ** min(times - 1, 30))
    until = max(at + wait, before.until if before is not None else 0.0)
    avoided = {**_less(state.avoided, key), key: Avoided(until, times, at)}
    record = state.owners.get(pod.owner_key, OwnerRecord())
    recent = tuple(t for t in (*record.refusals, at) if t > now - rules.window_seconds)
    record = replace(record, refusals=tuple(sorted(recent))[-4 * rules.refusals_max :])
    effects.append(Refused(pod))
    if len(record.refusals) == 1:
        effects.append(Tell(pod, "TopologyRefused", _first(pod, wait), of_owner=True))
    if len(record.refusals) >= rules.refusals_max and record.gave_up_at is None:
        record = replace(record, gave_up_at=now)
        effects.append(Tell(pod, "TopologyRedeployGaveUp", _gave_up(rules, pod), of_owner=True))
    owners = {**_less(state.owners, pod.owner_key), pod.owner_key: record}
    return replace(
        state, avoided=_bounded(avoided, AVOIDED_MAX), owners=_bounded(owners, OWNERS_MAX)
    )


def _bounded(found: dict[K, V], most: int) -> dict[K, V]:
    """The newest entries."""
    excess = len(found) - most
    return dict(list(found.items())[excess:]) if excess > 0 else found


def _first(pod: SeenPod, wait: float) -> str:
    return (
        f"{pod.host} refused {pod.name}: {pod.reason}. The host is avoided for pods of this shape "
        f"for {wait:.0f} s, as far as they carry the gate {GATE}."
    )


def _gave_up(rules: Rules, pod: SeenPod) -> str:
    return (
        f"{rules.refusals_max} pods were refused within {rules.window_seconds:.0f} s, the last one "
        f"by {pod.host} ({pod.reason}). New ones with the gate {GATE} wait until a pod leaves "
        "such a host or the time has passed. Ask for less, or for hosts with more room in one "
        "NUMA node."
    )


def _freed(state: RedeployState, host: str) -> RedeployState:
    """There may be room now: what was learnt about the host and its victims is out of date."""
    gone = [key for key in state.avoided if key[1] == host]
    if not gone:
        return state
    shapes = {shape for shape, _ in gone}
    concerned = {p.owner_key for p in _all_pods(state) if p.shape in shapes}
    return replace(
        state,
        avoided={key: a for key, a in state.avoided.items() if key[1] != host},
        owners={key: record for key, record in state.owners.items() if key not in concerned},
    )


def _all_pods(state: RedeployState) -> Iterator[SeenPod]:
    yield from state.refused.values()
    yield from state.waiting.values()
    yield from state.opened.values()


def _forgotten(rules: Rules, state: RedeployState, now: float) -> RedeployState:
    """Drops what is too old to matter."""
    oldest = now - rules.window_seconds
    stale = [key for key, a in state.avoided.items() if max(a.until, a.at) < oldest]
    calm = [k for k, r in state.owners.items() if not r.refusals or r.refusals[-1] < oldest]
    if not stale and not calm:
        return state
    return replace(
        state,
        avoided={key: a for key, a in state.avoided.items() if key not in set(stale)},
        owners={key: r for key, r in state.owners.items() if key not in set(calm)},
    )


# What is due.


def owner_ready_at(rules: Rules, state: RedeployState, pod: SeenPod) -> float:
    """When the next pod of this owner may try again."""
    record = state.owners.get(pod.owner_key)
    if record is None or not record.refusals:
        return 0.0
    if len(record.refusals) >= rules.refusals_max:
        return record.refusals[-rules.refusals_max] + rules.window_seconds
    count = len(record.refusals)
    wait = min(rules.wait_seconds_max, rules.wait_seconds * 2.0 ** (count - 1))
    # A fifth more or less, by the pod: many owners should not come back in the same moment.
    spread = zlib.crc32(pod.uid.encode()) % 1000 / 999 * 0.4 + 0.8
    return record.refusals[-1] + wait * spread


def _due(rules: Rules, state: RedeployState, now: float, effects: list[Effect]) -> RedeployState:
    done = set(state.done)
    for pod in state.waiting.values():
        if (pod.uid, "open") not in done and _may_try(rules, state, pod, now):
            effects.append(OpenGate(pod, tuple(state.avoided_hosts(pod.shape, now))))
            done.add((pod.uid, "open"))
    bucket = state.bucket or TokenBucket.full(
        per_second=rules.deletions_per_minute_max / 60.0,
        burst=max(1.0, rules.deletions_per_minute_max / 6.0),
        now=now,
    )
    for effect in _removals(rules, state, now):
        if (effect.pod.uid, "remove") in done:
            continue
        after = bucket.taken(now)
        if after is None:
            break
        bucket = after
        effects.append(effect)
        done.add((effect.pod.uid, "remove"))
    if len(done) == len(state.done) and bucket is state.bucket:
        return state
    return replace(state, done=frozenset(done), bucket=bucket)


def _may_try(rules: Rules, state: RedeployState, pod: SeenPod, now: float) -> bool:
    if now < owner_ready_at(rules, state, pod):
        return False
    avoided = state.avoided_hosts(pod.shape, now)
    return not avoided or bool(state.hosts - set(avoided))


def _removals(rules: Rules, state: RedeployState, now: float) -> Iterator[DeletePod | RecreatePod]:
    by_owner: dict[str, list[SeenPod]] = {}
    for pod in state.refused.values():
        by_owner.setdefault(pod.owner_key, []).append(pod)
    for pods in by_owner.values():
        yield from _removals_of_owner(rules, state, pods, now)
    for pod in state.opened.values():
        # What its gate ruled out cannot be taken back, but its controller can make a new one.
        current = set(state.avoided_hosts(pod.shape, now))
        if pod.owner is not None and not current.issuperset(pod.avoids):
            yield DeletePod(pod, "the hosts that it had to avoid may have room again")


def _removals_of_owner(
    rules: Rules, state: RedeployState, pods: list[SeenPod], now: float
) -> Iterator[DeletePod | RecreatePod]:
    owner = pods[0].owner
    newest_first = sorted(pods, key=lambda pod: (-pod.refused_at, pod.name))
    if owner is None:
        newest, *older = newest_first
        if not (rules.recreates_bare or newest.wants_recreation):
            return
        if _may_try(rules, state, newest, now):
            yield RecreatePod(newest, tuple(state.avoided_hosts(newest.shape, now)))
        for pod in older:
            yield DeletePod(pod, "it was made again")
        return
    if owner.kind == DELETES_ITSELF:
        return
    if owner.kind != REPLACES_AT_ONCE:
        # Its controller waits for the deletion: now is when another pod tries.
        for pod in newest_first:
            if _may_try(rules, state, pod, now):
                yield DeletePod(pod, "its controller makes a new one")
        return
    for number, pod in enumerate(newest_first):
        age_min = rules.grace_seconds if number >= rules.keep else rules.window_seconds
        if now - pod.refused_at >= age_min:
            yield DeletePod(pod, "its controller has long replaced it")
