"""Gangs: pods that get their hosts together, in one decision, or none of them.

All members that wait are placed one after the other on what the fleet would be like; if fewer than
the gang needs find a host, everything is taken back as if nobody had asked. So a gang that waits
holds nothing. Members that were sent cannot be called back: see ``to_release`` for the rare case
that two gangs are left with half of their pods each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numalign.apps.scheduler import events
from numalign.apps.scheduler.find_host import find
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.room.model import GROUPS, GangKey
from numalign.core.cluster.between_pods.gangs import GANG_SIZE_MAX, Stuck, to_release
from numalign.core.cluster.scheduling.totals import requests_of
from numalign.wire.kubernetes.scheduling import ClusterPod


@dataclass(frozen=True, slots=True)
class GangWaits:
    """These pods of a gang wait, and why."""

    message: str
    waiting: tuple[ClusterPod, ...]
    effects: tuple[events.Effect, ...] = ()


# Members and groups.


def seen(state: State, pod: ClusterPod) -> None:
    """A pod of a gang is there."""
    if pod.gang is not None:
        state.gangs.members.setdefault(_key(pod), {})[pod.pod.uid] = None


def gone(state: State, uid: str) -> None:
    """A pod is not there any more."""
    pod = state.pods.get(uid)
    if pod is None or pod.gang is None:
        return
    members = state.gangs.members.get(_key(pod), {})
    members.pop(uid, None)
    if not members:
        state.gangs.members.pop(_key(pod), None)
        state.gangs.stuck_since.pop(_key(pod), None)
        state.gangs.tried.pop(_key(pod), None)


def follow_groups(state: State, event: room_events.GroupEvent) -> None:
    """Brings the PodGroups of the API server up to date."""
    groups = state.gangs.groups
    match event:
        case room_events.GroupsListed(listed):
            groups.clear()
            groups.update((one.name, one.minimum) for one in listed)
            state.synced.add(GROUPS)
        case room_events.GroupSeen(group):
            if groups.get(group.name) == group.minimum:
                return  # its status changes all the time
            groups[group.name] = group.minimum
        case room_events.GroupGone(name):
            groups.pop(name, None)
    state.helped(event.now)


def minimum_of(state: State, pod: ClusterPod) -> int | str:
    """How many pods must get their hosts together with this one; a text: why nobody knows."""
    gang = pod.gang
    if gang is None:
        return 1
    if gang.problem:
        return gang.problem
    if not gang.is_object:
        pods = (state.pods[uid].gang for uid in state.gangs.members[_key(pod)])
        return max(one.minimum for one in pods if one is not None)
    if gang.name in state.gangs.groups:
        return state.gangs.groups[gang.name]
    if GROUPS not in state.synced:
        return f"the PodGroups of the cluster are not known yet, and the pod names {gang.name}"
    return f"waits for the PodGroup {gang.name}, which is not there"


def _key(pod: ClusterPod) -> GangKey:
    assert pod.gang is not None, "only pods of a gang are asked for it"
    return pod.gang.is_object, pod.gang.name


# Deciding.


def attempt(
    state: State, pod: ClusterPod, minimum: int, now: float
) -> list[events.Effect] | GangWaits:
    """Hosts for all members of a pod's gang that wait, or why there are none."""
    key = _key(pod)
    name = key[1]
    members = [state.pods[uid] for uid in state.gangs.members[key]]
    placed = [one for one in members if one.pod.uid in state.placed]
    waiting = [one for one in members if _waits(state, one)]
    if len(placed) + len(waiting) < minimum:
        # No count of those that are there: it would be told anew to all with each that comes.
        text = f"waits for the rest of its gang {name}, which needs {minimum} pods at once"
        return GangWaits(text, (pod,))
    if len(waiting) > GANG_SIZE_MAX:
        text = f"the gang {name} has {len(waiting)} pods, expected at most {GANG_SIZE_MAX}"
        return GangWaits(text, (pod,))
    tried = state.gangs.tried.get(key)
    if tried is not None and tried[0] == state.generation:
        return GangWaits(tried[1], (pod,))
    trial = _Trial(state)
    why = trial.place(sorted(waiting, key=_largest_first), minimum - len(placed))
    if not why:
        state.gangs.stuck_since.pop(key, None)
        return trial.kept()
    trial.take_back()
    count = len(placed) + len(trial.found)
    found = f"only {count} of them find a host" if count else "none of them finds a host"
    message = f"the gang {name} needs {minimum} pods at once, and {found}: {why}"
    state.gangs.tried[key] = (state.generation, message)
    return GangWaits(
        message, tuple(waiting), tuple(_released(state, key, now, has_begun=bool(placed)))
    )


def _waits(state: State, pod: ClusterPod) -> bool:
    uid = pod.pod.uid
    return uid in state.queue and uid not in state.placed


def _largest_first(pod: ClusterPod) -> tuple[object, ...]:
    """Equal pods in the order of their names; the largest ones while there is most room."""
    requests = requests_of(pod.pod)
    return -pod.priority, -requests.get("cpu", 0), -requests.get("memory", 0), pod.pod.name


class _Trial:
    """Pods that are placed to see whether it works, and taken back if not."""

    def __init__(self, state: State) -> None:
        self.found: list[tuple[ClusterPod, str]] = []
        self._state = state
        self._marks: list[tuple[str, object]] = []
        self._before = (state.generation, state.has_helper, dict(state.tried))

    def place(self, pods: list[ClusterPod], needed: int) -> str:
        """Empty if so many of the pods have a host now; otherwise why the first one has none."""
        why = ""
        for number, pod in enumerate(pods):
            if len(self.found) + len(pods) - number < needed:
                break
            host, message = find(self._state, pod)
            if host is None:
                why = why or message
                continue
            self._marks.append((host, self._state.fleet.mark(host)))
            self._state.place(pod, host)
            self.found.append((pod, host))
        return "" if len(self.found) >= needed else why

    def kept(self) -> list[events.Effect]:
        effects: list[events.Effect] = []
        for pod, host in self.found:
            self._state.queue.take(pod.pod.uid)
            effects += self._state.assume(pod, host)
        return effects

    def take_back(self) -> None:
        state = self._state
        for (pod, _), (host, mark) in zip(reversed(self.found), reversed(self._marks), strict=True):
            state.unplace(pod.pod.uid)
            state.fleet.restore(host, mark)
        state.generation, state.has_helper, tried = self._before
        state.tried = tried


# Two gangs with half of their pods each.


def _released(
    state: State, key: GangKey, now: float, *, has_begun: bool
) -> Iterator[events.Effect]:
    if not has_begun:
        state.gangs.stuck_since.pop(key, None)
        return
    state.gangs.stuck_since.setdefault(key, now)
    chosen = to_release(_stuck(state), now)
    if chosen is None or not state.makes_room:
        return
    del state.gangs.stuck_since[chosen]
    yield room_events.CountPreemption("released")
    for uid in state.gangs.members[chosen]:
        pod = state.pods[uid]
        if pod.host and not pod.is_deleted:
            note = (
                f"evicted: the gang {chosen[1]} has too few pods to run, and holds the room of "
                "another gang that has too few as well"
            )
            yield events.TellEvent(pod, "GangReleased", "Preempting", note, is_warning=True)
            yield room_events.Evict("", pod)


def _stuck(state: State) -> Iterator[Stuck[GangKey]]:
    """The gangs that run with too few pods; those whose pods nobody would make anew left out."""
    for key, since in state.gangs.stuck_since.items():
        members = [state.pods[uid] for uid in state.gangs.members[key]]
        if all(one.owner for one in members):
            yield Stuck(key, max(one.priority for one in members), since)
