"""What a kube-scheduler gets when it asks its extender for the hosts of a pod.

With one call per pod it gets the one best host, and the pod counts there from then on: the watch
confirms that, or another question of the same pod, or time, ends it. With three calls it gets all
hosts that would do, asks for scores, and asks us to bind; the pod counts from the bind on.

Nothing that we refuse may wait for somebody else's change to be asked about again. A refusal that
holds only for now (a host has yet to publish) is told as an error, after which a kube-scheduler
asks again by itself. One that holds is remembered; if a host would take the pod later, we touch the
pod, which is an event that puts it back into the kube-scheduler's queue.
"""

from __future__ import annotations

from typing import Final

from numalign.apps.scheduler import events, find_host
from numalign.apps.scheduler.model import Answer, RefusedPod, State
from numalign.core.cluster.scheduling.refusals import UNCONFIRMED
from numalign.core.cluster.scheduling.totals import requests_of
from numalign.core.pod import Pod, Qos
from numalign.wire.kubernetes.extender import Filtered, HostsAsked
from numalign.wire.kubernetes.scheduling import VOLUME_CLAIMS, ClusterPod

RESERVED_SECONDS: Final = 30.0
# A kube-scheduler may wait for a volume to be made before it binds.
RESERVED_SECONDS_WITH_CLAIMS: Final = 600.0
TOUCH_SECONDS: Final = (1.0, 60.0)  # between a refusal and a touch: first and longest
REFUSED_KEPT_MAX: Final = 10_000
ANSWERS_KEPT_MAX: Final = 32  # with the names of all hosts each


def want(state: State, event: events.HostsWanted) -> list[events.Effect]:
    """Answers a question for hosts."""
    asked, now = event.asked, event.now
    uid = asked.pod.pod.uid
    _free(state, uid, now)  # it asks anew, so nothing came of the last answer
    effects: list[events.Effect] = []
    found = _told_before(state, asked) or _one(state, asked, now)
    if found is None:
        found = find_host.filtered(state, asked)
        _remember(state, asked, found)
    if found.kept:
        state.refused.pop(uid, None)
    elif asked.names:
        found, effects = _none_left(state, asked, found, now)
    return [*effects, events.AnswerHosts(event.ticket, found)]


def _one(state: State, asked: HostsAsked, now: float) -> Filtered | None:
    """The best host alone; None if there is none, or the pod need not be kept from others."""
    pod = asked.pod
    if not state.is_reserving or not may_hold(pod.pod):
        return None
    allowed = frozenset(asked.names)
    if state.is_strict:
        allowed &= state.topologies.keys()
    host = state.fleet.choose(pod.pod, allowed.__contains__)
    if host is None:
        return None
    uid = pod.pod.uid
    state.place(pod, host)
    state.assumed.add(uid)
    claims = VOLUME_CLAIMS in pod.requirements.unsupported
    state.reserved[uid] = now + (RESERVED_SECONDS_WITH_CLAIMS if claims else RESERVED_SECONDS)
    return Filtered((host,))


def _told_before(state: State, asked: HostsAsked) -> Filtered | None:
    """What a pod of the same class was told, if nothing has changed since."""
    before = state.answers.get(find_host.class_of(asked.pod))
    if before is None or before.version != state.version or before.names != asked.names:
        return None
    return before.found


def _remember(state: State, asked: HostsAsked, found: Filtered) -> None:
    """An answer that keeps no room for the pod."""
    if len(state.answers) >= ANSWERS_KEPT_MAX:
        state.answers.clear()
    pod_class = find_host.class_of(asked.pod)
    state.answers[pod_class] = Answer(state.version, asked.names, found)


def may_hold(pod: Pod) -> bool:
    """Whether a kubelet may give the pod anything for itself alone."""
    if pod.qos is Qos.GUARANTEED or pod.has_pod_level_resources:
        return True
    if pod.qos is None and pod.qos_computed(by_pod=False) is Qos.GUARANTEED:
        return True
    return any(
        "/" in name or name.startswith("hugepages-") for c in pod.in_order for name in c.limits
    )


def _none_left(
    state: State, asked: HostsAsked, found: Filtered, now: float
) -> tuple[Filtered, list[events.Effect]]:
    late = [name for name, text in found.failed.items() if text == UNCONFIRMED]
    if late:
        text = f"{len(late)} hosts, such as {min(late)}, have yet to publish: ask again"
        return Filtered((), error=text), [events.CountAttempt("postponed")]
    uid = asked.pod.pod.uid
    before = state.refused.pop(uid, None)
    if len(state.refused) >= REFUSED_KEPT_MAX:
        del state.refused[next(iter(state.refused))]
    times = before.times + 1 if before is not None else 0
    first, longest = TOUCH_SECONDS
    due = now + min(longest, first * 2.0 ** min(times, 10))
    state.refused[uid] = RefusedPod(asked.pod, state.generation, due, times)
    return found, [events.CountAttempt("refused")]


def _free(state: State, uid: str, now: float) -> None:
    if state.reserved.pop(uid, None) is not None and uid in state.assumed:
        state.unplace(uid)
        state.helped(now)


def confirmed(state: State, uid: str) -> None:
    """A pod is bound or gone: what it was promised is over."""
    state.reserved.pop(uid, None)
    state.refused.pop(uid, None)


# What is due.


def next_at(state: State) -> float | None:
    """When a reservation ends or a pod may be touched; None: not before something changes."""
    ends = min(state.reserved.values(), default=None)
    touches = [one.due for one in state.refused.values() if one.generation != state.generation]
    return min((at for at in (ends, *touches) if at is not None), default=None)


def due(state: State, now: float) -> list[events.Effect]:
    """Ends reservations that nobody confirmed, and touches pods that a host would take by now."""
    effects: list[events.Effect] = []
    for uid in [uid for uid, end in state.reserved.items() if end <= now]:
        _free(state, uid, now)
        effects.append(events.CountAttempt("unconfirmed"))
    would_fit: dict[object, bool] = {}  # by class: hosts answer pods of one class alike
    for uid, refused in state.refused.items():
        if refused.due > now or refused.generation == state.generation:
            continue
        pod = state.pods.get(uid, refused.pod)
        refused.generation, refused.due = state.generation, now + TOUCH_SECONDS[0]
        pod_class = find_host.class_of(pod)
        if pod_class not in would_fit:
            would_fit[pod_class] = _would_fit(state, pod)
        if would_fit[pod_class]:
            effects += [events.CountAttempt("touched"), events.TouchPod(pod)]
    return effects


def _would_fit(state: State, pod: ClusterPod) -> bool:
    """Whether a host may take the pod; rules between pods are the kube-scheduler's to look at."""
    requests = requests_of(pod.pod)
    found = state.fleet.choose(
        pod.pod, lambda name: find_host.objection_to(state, pod, requests, name) is None
    )
    return found is not None
