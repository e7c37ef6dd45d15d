"""What became other from one moment to the next, and the host as it was at one of them.

A host's state shares what does not change with the state before, so what changed is found by
looking at a few objects of each pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState
from numalign.core.cluster.publish.of_state import accounts_of, devices_of, placed_pod
from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.errors import NumalignError, WireError
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.kubelet.host import HostState
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes import placement as placements
from numalign.wire.moments import VERSION, Change, Head, Held, Moment
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.running import reduced


def head_of(setup: AgentSetup, host: str) -> Head:
    """What all moments of a segment stand on; WireError for a machine that is too large."""
    bare = PublishedPlacement(setup.host.info, setup.host.settings, pods_max=setup.totals[PODS])
    text = placements.encode(bare)
    if text is None:
        raise WireError("the machine is too large for a history to be kept")
    return Head(VERSION, text, host)


def whole(state: AgentState, moment: Moment, later: Collection[str] = ()) -> Change:
    """A moment with everything that was there, but for pods that came ``later``."""
    host = state.host
    return Change(
        moment,
        is_whole=True,
        pods={uid: _held(host, uid, state.pods.get(uid)) for uid in host.pods if uid not in later},
        accounts=msgspec.Raw(placements.accounts_bytes(accounts_of(host))),
        devices=msgspec.Raw(placements.devices_bytes(devices_of(host.devices.resources))),
    )


def change(
    before: HostState,
    state: AgentState,
    moment: Moment,
    later: Collection[str] = (),
    missing: Collection[str] = (),
) -> Change:
    """A moment with what is other than before.

    Several decisions may have the same state after them: pods that came ``later`` are left out,
    and those that were left out before are ``missing``.
    """
    host = state.host
    found = Change(moment)
    new = [
        uid
        for uid in (missing if host is before else host.pods)
        if uid in missing or uid not in before.pods or not _is_same(before, host, uid)
    ]
    found.pods = {
        uid: _held(host, uid, state.pods.get(uid))
        for uid in new
        if uid in host.pods and uid not in later
    }
    if host is before:
        return found
    found.gone = [uid for uid in before.pods if uid not in host.pods]
    if host.memory.machine is not before.memory.machine:
        found.accounts = msgspec.Raw(placements.accounts_bytes(accounts_of(host)))
    if host.devices.resources is not before.devices.resources:
        found.devices = msgspec.Raw(placements.devices_bytes(devices_of(host.devices.resources)))
    return found


def _is_same(before: HostState, after: HostState, uid: str) -> bool:
    return (
        before.pods[uid] is after.pods[uid]
        and before.cpu.entries.get(uid) == after.cpu.entries.get(uid)
        and before.cpu.pod_sets.get(uid) == after.cpu.pod_sets.get(uid)
        and before.memory.entries.get(uid) is after.memory.entries.get(uid)
        and before.memory.pod_blocks.get(uid) is after.memory.pod_blocks.get(uid)
        and before.devices.entries.get(uid) is after.devices.entries.get(uid)
    )


def _held(host: HostState, uid: str, known: AgentPod | None) -> Held:
    placed = msgspec.Raw(placements.pod_bytes(placed_pod(host, host.pods[uid])))
    record = PodRecord() if known is None else record_kept(known)
    record.metadata.uid = uid
    return Held(placed, record)


def record_kept(known: AgentPod) -> PodRecord:
    """What is kept of a manifest: no environment, no command, no annotation."""
    found = reduced(known.record)
    found.metadata.uid = known.pod.uid
    found.metadata.ownerReferences = known.record.metadata.ownerReferences
    found.metadata.creationTimestamp = known.record.metadata.creationTimestamp
    return found


# Back to a host.


@dataclass(frozen=True, slots=True)
class Then:
    """A host at one moment."""

    placement: PublishedPlacement
    records: Mapping[str, PodRecord]
    change: Change


@dataclass(slots=True)
class Replay:
    """The frames of one segment, taken up one after the other."""

    head: Head
    pods: dict[str, Held] = field(default_factory=dict)
    accounts: bytes = b"[]"
    devices: bytes = b"{}"
    is_begun: bool = False

    def take(self, found: Change) -> None:
        if found.is_whole:
            self.pods, self.is_begun = {}, True
        self.pods.update(found.pods)
        for uid in found.gone:
            self.pods.pop(uid, None)
        self.accounts = bytes(found.accounts) or self.accounts
        self.devices = bytes(found.devices) or self.devices

    def then(self, found: Change) -> Then:
        """The host after a change that was taken; WireError if it cannot be built."""
        try:
            bare = placements.decode(self.head.placement)
            whole_ = replace(
                bare,
                pods=tuple(placements.pod_from(bytes(one.placed)) for one in self.pods.values()),
                devices=placements.devices_from(self.devices),
                accounts=placements.accounts_from(self.accounts),
            )
        except (NumalignError, ValueError, *DECODE_FAULTS) as error:
            raise WireError(f"this moment cannot be read: {error}") from error
        return Then(whole_, {uid: one.record for uid, one in self.pods.items()}, found)


def replayed(head: Head, changes: Iterable[Change], number: int) -> Then | None:
    """The host at the moment of this number; None if it is not among the changes."""
    replay = Replay(head)
    for found in changes:
        replay.take(found)
        if not replay.is_begun:
            return None
        if found.moment.id == number:
            return replay.then(found)
    return None
