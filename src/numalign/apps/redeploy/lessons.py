"""What refusals teach: which host to avoid for which shape, how long which owner has to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from numalign.apps.redeploy.events import CountGiveUp, CountRefusal, Effect, WriteEvent
from numalign.apps.redeploy.model import (
    AVOIDED_MAX,
    OWNERS_MAX,
    Avoided,
    OwnerRecord,
    RedeployState,
    Rules,
)
from numalign.core.cluster.refused_pods import GATE, SeenPod

K = TypeVar("K")
V = TypeVar("V")


def learn(
    rules: Rules, state: RedeployState, pod: SeenPod, now: float, effects: list[Effect]
) -> RedeployState:
    """Remembers a refusal: the host is avoided for this shape, the owner waits longer."""
    at = min(pod.refused_at or now, now)
    key = pod.shape, pod.host
    before = state.avoided.get(key)
    times = before.times + 1 if before is not None else 1
    wait = min(rules.avoid_seconds_max, rules.avoid_seconds * 2.0 ** min(times - 1, 30))
    until = max(at + wait, before.until if before is not None else 0.0)
    avoided = {**without(state.avoided, key), key: Avoided(until, times, at)}
    record = state.owners.get(pod.owner_key, OwnerRecord())
    recent = tuple(t for t in (*record.refusals, at) if t > now - rules.window_seconds)
    record = replace(record, refusals=tuple(sorted(recent))[-4 * rules.refusals_max :])
    effects.append(CountRefusal(pod))
    if len(record.refusals) == 1:
        effects.append(WriteEvent(pod, "TopologyRefused", _first(pod, wait), of_owner=True))
    if len(record.refusals) >= rules.refusals_max and record.gave_up_at is None:
        record = replace(record, gave_up_at=now)
        effects.append(CountGiveUp(pod))
        effects.append(
            WriteEvent(pod, "TopologyRedeployGaveUp", _gave_up(rules, pod), of_owner=True)
        )
    owners = {**without(state.owners, pod.owner_key), pod.owner_key: record}
    return replace(
        state, avoided=_bounded(avoided, AVOIDED_MAX), owners=_bounded(owners, OWNERS_MAX)
    )


def free_host(state: RedeployState, host: str) -> RedeployState:
    """There may be room now: what was learnt about the host and its victims is out of date."""
    gone = [key for key in state.avoided if key[1] == host]
    if not gone:
        return state
    shapes = {shape for shape, _ in gone}
    concerned = {p.owner_key for p in state.all_pods if p.shape in shapes}
    return replace(
        state,
        avoided={key: a for key, a in state.avoided.items() if key[1] != host},
        owners={key: record for key, record in state.owners.items() if key not in concerned},
    )


def forget_old(rules: Rules, state: RedeployState, now: float) -> RedeployState:
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


def without(found: Mapping[K, V], key: K) -> Mapping[K, V]:
    """The same without one key; the very same if it is not there."""
    return {k: v for k, v in found.items() if k != key} if key in found else found


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
