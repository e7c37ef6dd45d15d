"""Hosts for pods that wait at our gate, while a kube-scheduler does the binding.

A pod is decided about while it is gated, exactly and over all hosts. One change then opens the gate
and leaves it that host alone; a kube-scheduler looks at this one host with all its other rules, and
binds. The pod counts there from the decision on. After a restart its own object says where, so
nothing is kept but in the cluster: a pod that is still gated is decided anew, one that is not holds
its room.

What can go wrong after that is the kube-scheduler's refusal: a volume elsewhere, a rule that we do
not know. The affinity of an open pod cannot be loosened, so its controller has to make another one,
which does not get that host for a while.
"""

from __future__ import annotations

from typing import Final

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import Avoided, PrePlacing, State
from numalign.wire.kubernetes.scheduling import RESOURCE_CLAIMS, VOLUME_CLAIMS, ClusterPod

OUR_WORDS: Final = "numalign: "  # in front of a message that is not a kube-scheduler's
FOLLOW_SECONDS: Final = (10.0, 300.0)  # how long a kube-scheduler may refuse: first and longest
AVOID_SECONDS: Final = (300.0, 3_600.0)
OWNERS_KEPT_MAX: Final = 4_096
# A kube-scheduler looks after these on the one host that is left; where it cannot, it says so.
FOLLOWED: Final = frozenset({VOLUME_CLAIMS, RESOURCE_CLAIMS})


def is_ours(state: State, pod: ClusterPod) -> bool:
    """Whether a pod without a host waits for us to find one."""
    if pod.is_deleted:
        return False
    if state.pre is not None:
        return pod.awaits_us
    return pod.scheduler == state.name and not pod.is_gated


def is_followed(state: State, rule: str) -> bool:
    """Whether somebody else looks after a rule of a pod that we do not know."""
    return state.pre is not None and rule in FOLLOWED


def in_our_words(state: State, message: str) -> str:
    """A message for a pod's condition: with a kube-scheduler beside us it must say who speaks."""
    return message if state.pre is None else f"{OUR_WORDS}{message}"


def handed_over(state: State, pod: ClusterPod) -> list[events.Effect] | None:
    """The end of our part in a pod with rules that only a kube-scheduler knows; None: it is ours.

    It waits in the queue until its gate is seen open, in case that goes wrong.
    """
    rules = [one for one in pod.requirements.unsupported if not is_followed(state, one)]
    if state.pre is None or not rules:
        return None
    note = (
        f"the pod asks for {' and '.join(rules)}, which only the kube-scheduler looks after: it "
        "chooses the host, and NUMA nodes do not count"
    )
    return [
        _tell(pod, "HandedOver", note, is_warning=True),
        events.CountAttempt("handed_over"),
        events.OpenGate(pod),
    ]


# Pods that are seen.


def gated_seen(state: State, pod: ClusterPod, now: float) -> None:
    """A pod without a host: how long has it waited at our gate?"""
    if state.pre is None:
        return
    if is_ours(state, pod):
        state.pre.gated_since.setdefault(pod.pod.uid, now)
    else:
        state.pre.gated_since.pop(pod.pod.uid, None)


def pinned_seen(state: State, pod: ClusterPod, now: float) -> None:
    """A pod whose gate we opened counts on its host, unless that has come to nothing."""
    uid = pod.pod.uid
    state.queue.remove(uid)
    state.told.pop(uid, None)
    if state.pre is not None:
        state.pre.gated_since.pop(uid, None)
        if uid in state.pre.given_up:
            return
        _look_after(state.pre, pod, now)
    if pod.is_deleted:
        if uid in state.placed:
            state.unplace(uid)
            state.helped(now)
        return
    if state.placed.get(uid) != pod.pinned:
        state.place(pod, pod.pinned)
    state.assumed.add(uid)


def _look_after(pre: PrePlacing, pod: ClusterPod, now: float) -> None:
    """Notes since when a kube-scheduler has refused the pod on its host."""
    message = pod.unschedulable
    is_refused = message is not None and not message.startswith(OUR_WORDS)
    # Where others are being evicted for it, all is well.
    if is_refused and not pod.nominated and not pod.is_deleted:
        pre.unfollowed.setdefault(pod.pod.uid, now)
    else:
        pre.unfollowed.pop(pod.pod.uid, None)


def forget(state: State, uid: str) -> None:
    """A pod is bound or gone."""
    if state.pre is not None:
        state.pre.gated_since.pop(uid, None)
        state.pre.unfollowed.pop(uid, None)
        state.pre.given_up.discard(uid)


# What is due.


def next_at(state: State) -> float | None:
    """When something is due; None: not before something else has happened."""
    pre = state.pre
    if pre is None:
        return None
    found: list[float] = []
    if pre.open_after_seconds is not None and pre.gated_since:
        found.append(next(iter(pre.gated_since.values())) + pre.open_after_seconds)
    if state.is_leading:
        found += (_patience_ends_at(state, pre, uid) for uid in pre.unfollowed)
        found += (end for one in pre.avoided.values() for end in one.hosts.values())
    return min(found, default=None)


def due(state: State, now: float) -> list[events.Effect]:
    """What must be done by now."""
    pre = state.pre
    if pre is None:
        return []
    effects = _opened_at_last(state, pre, now)
    if not state.is_leading:
        return effects
    _end_avoiding(state, pre, now)
    for uid in [uid for uid in pre.unfollowed if _patience_ends_at(state, pre, uid) <= now]:
        effects += _given_up(state, pre, uid, now)
    return effects


def _opened_at_last(state: State, pre: PrePlacing, now: float) -> list[events.Effect]:
    """Gates of pods about which nobody has decided for too long, whoever leads."""
    effects: list[events.Effect] = []
    seconds = pre.open_after_seconds
    if seconds is None:
        return effects
    for uid in [uid for uid, since in pre.gated_since.items() if since + seconds <= now]:
        del pre.gated_since[uid]
        pre.gated_since[uid] = now  # looked at again later, in case that this goes wrong
        pod = state.pods[uid]
        is_decided = uid in state.assumed or (pod.unschedulable or "").startswith(OUR_WORDS)
        if is_decided:
            continue
        note = f"nobody decided about the pod for {seconds:g} s: the kube-scheduler chooses alone"
        effects += [
            _tell(pod, "GateOpened", note, is_warning=True),
            events.CountAttempt("opened"),
            events.OpenGate(pod),
        ]
    return effects


# A kube-scheduler that cannot follow.


def _owner_of(pod: ClusterPod) -> str:
    return f"{pod.pod.namespace}/{pod.owner}" if pod.owner else ""


def _patience_ends_at(state: State, pre: PrePlacing, uid: str) -> float:
    pod = state.pods[uid]
    known = pre.avoided.get(_owner_of(pod))
    first, longest = FOLLOW_SECONDS
    return pre.unfollowed[uid] + min(
        longest, first * 2.0 ** min(known.failures if known else 0, 10)
    )


def _given_up(state: State, pre: PrePlacing, uid: str, now: float) -> list[events.Effect]:
    pod = state.pods[uid]
    why = f"the kube-scheduler cannot place it on {pod.pinned}: {pod.unschedulable}"
    del pre.unfollowed[uid]
    pre.given_up.add(uid)
    if uid in state.placed:
        state.unplace(uid)
        state.helped(now)
    count = events.CountAttempt("not_followed")
    if not pod.owner:
        note = f"{why}; it has no controller that would make another one: delete and create it anew"
        return [_tell(pod, "NotFollowed", note, is_warning=True), count]
    _avoid(pre, _owner_of(pod), pod.pinned, now)
    note = f"{why}; {pod.owner} shall make another one, which does not go there for a while"
    return [_tell(pod, "NotFollowed", note, is_warning=True), count, events.Recreate(pod)]


def recreate_failed(state: State, event: events.RecreateFailed) -> None:
    """The pod is still there: once more after the same patience."""
    pre, pod = state.pre, state.pods.get(event.uid)
    if pre is not None and pod is not None and pod.pinned and not pod.host:
        pre.unfollowed.setdefault(event.uid, event.now)


def _avoid(pre: PrePlacing, owner: str, host: str, now: float) -> None:
    known = pre.avoided.pop(owner, Avoided({}, 0))
    if len(pre.avoided) >= OWNERS_KEPT_MAX:
        del pre.avoided[next(iter(pre.avoided))]
    first, longest = AVOID_SECONDS
    end = now + min(longest, first * 2.0 ** min(known.failures, 10))
    pre.avoided[owner] = Avoided({**known.hosts, host: end}, known.failures + 1)


def _end_avoiding(state: State, pre: PrePlacing, now: float) -> None:
    for owner, known in list(pre.avoided.items()):
        left = {host: end for host, end in known.hosts.items() if end > now}
        if len(left) == len(known.hosts):
            continue
        if left:
            pre.avoided[owner] = Avoided(left, known.failures)
        else:
            del pre.avoided[owner]
        state.helped(now)


def avoided_hosts(state: State, pod: ClusterPod) -> frozenset[str]:
    """The hosts on which a kube-scheduler lately did not place a pod of the same owner."""
    known = state.pre.avoided.get(_owner_of(pod)) if state.pre is not None else None
    return frozenset(known.hosts) if known is not None else frozenset()


def _tell(pod: ClusterPod, reason: str, note: str, *, is_warning: bool) -> events.TellEvent:
    return events.TellEvent(pod, reason, "Scheduling", f"{OUR_WORDS}{note}", is_warning)
