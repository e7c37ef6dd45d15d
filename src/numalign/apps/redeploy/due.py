"""What is due at a moment: gates to open, refused pods to delete or to make again."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from numalign.apps.redeploy.events import DeletePod, Effect, OpenGate, RecreatePod
from numalign.apps.redeploy.model import OPEN, REMOVE, RedeployState, Rules
from numalign.core.cluster.refused_pods import SeenPod
from numalign.core.values.token_bucket import TokenBucket

REPLACES_AT_ONCE: Final = "ReplicaSet"
DELETES_ITSELF: Final = "StatefulSet"


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


def ask_for_what_is_due(
    rules: Rules, state: RedeployState, now: float, effects: list[Effect]
) -> RedeployState:
    """Adds what can be done at this moment and was not asked for yet."""
    asked = set(state.asked)
    for pod in state.waiting.values():
        if (pod.uid, OPEN) not in asked and _may_try(rules, state, pod, now):
            effects.append(OpenGate(pod, tuple(state.avoided_hosts(pod.shape, now))))
            asked.add((pod.uid, OPEN))
    bucket = state.bucket or TokenBucket.full(
        per_second=rules.deletions_per_minute_max / 60.0,
        burst=max(1.0, rules.deletions_per_minute_max / 6.0),
        now=now,
    )
    for effect in _removals(rules, state, now):
        if (effect.pod.uid, REMOVE) in asked:
            continue
        after = bucket.taken(now)
        if after is None:
            break
        bucket = after
        effects.append(effect)
        asked.add((effect.pod.uid, REMOVE))
    if len(asked) == len(state.asked) and bucket is state.bucket:
        return state
    return replace(state, asked=frozenset(asked), bucket=bucket)


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
