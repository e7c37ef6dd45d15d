"""Who runs on a host: pods that are known, and stand-ins for those that only the files know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.core.kubelet.devices.devices import SavedDevices
from numalign.core.kubelet.host import Host
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.pod import Container, Pod, Qos, exclusive_cpus, qos_class
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import format_list, mask_of
from numalign.wire.pods.manifests import core_pod

if TYPE_CHECKING:
    from numalign.core.views.podresources import ContainerView, PodView

UNKNOWN = "unknown pod"
NOT_ASKED = (
    "what pods of the shared pool ask for is not known, so the totals (OutOfcpu, OutOfmemory, "
    "OutOfpods) may look better than they are. Give the pods with --pods."
)


@dataclass(slots=True)
class Holding:
    """What one container holds according to the state files."""

    cpus: int = 0
    memory: tuple[Block, ...] = ()
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def amounts(self) -> dict[str, Quantity]:
        found: dict[str, int] = {}
        if self.cpus:
            found["cpu"] = self.cpus.bit_count()
        for block in self.memory:
            found[block.type] = found.get(block.type, 0) + block.size
        found |= {name: len(ids) for name, ids in self.devices.items()}
        return {
            name: Quantity.of(amount, binary=name not in {"cpu", *self.devices})
            for name, amount in found.items()
        }


Holdings = dict[str, dict[str, Holding]]  # pod uid, container


@dataclass(frozen=True, slots=True)
class Running:
    """The active pods, their names, and what is uncertain about them."""

    pods: Mapping[str, Pod]
    names: Mapping[str, str]
    unknown: frozenset[str]
    notes: tuple[str, ...]


def pods_of(
    inputs: SnapshotInputs,
    host: Host,
    cpu: CpuState | None,
    memory: MemoryState | None,
    devices: SavedDevices | None,
) -> Running:
    """Every pod that is active as far as anybody can tell."""
    held = holdings(cpu, memory, devices)
    pods = {r.metadata.uid: core_pod(r) for r in inputs.pods if r.metadata.uid}
    names = dict(inputs.names)
    names |= {uid: f"{pod.namespace}/{pod.name}" for uid, pod in pods.items()}
    notes: list[str] = []
    loose = [core_pod(r) for r in inputs.pods if not r.metadata.uid]
    homeless = {} if inputs.pods_complete else {u: h for u, h in held.items() if u not in pods}
    views: Sequence[PodView] = ()
    if inputs.pod_resources is not None:
        views = inputs.pod_resources.pods
        listed = _listed(views, held, names)
        notes += listed.notes
        if not listed.is_doubtful:
            homeless = {u: h for u, h in homeless.items() if u in listed.uids}
    for uid, own in list(homeless.items()):
        match = _match(own, names.get(uid), loose, host)
        if match is not None:
            loose.remove(match)
            pods[uid] = replace(match, uid=uid)
            names.setdefault(uid, f"{match.namespace}/{match.name}")
            del homeless[uid]
    for pod in loose:
        if _would_hold(pod, host):
            notes.append(
                f"{pod.namespace}/{pod.name} holds nothing although it asks for CPUs or devices of "
                "its own: it is taken for a pod that does not run."
            )
            continue
        uid = f"{pod.namespace}/{pod.name}"
        pods[uid], names[uid] = replace(pod, uid=uid), uid
    if not inputs.pods_complete:
        notes += _idle(views, pods, names, known=bool(inputs.pods))
    for uid, own in homeless.items():
        pods[uid] = stand_in(uid, own, names.get(uid), _of_pod(uid, cpu, memory))
        names.setdefault(uid, f"{UNKNOWN} {uid}")
    if homeless:
        notes.append(
            f"{len(homeless)} running pods are known from the state files alone, and are taken to "
            f"ask for what they hold; {NOT_ASKED}"
        )
    elif held and not inputs.pods_complete and not inputs.pods:
        notes.append(NOT_ASKED)
    return Running(pods, names, frozenset(homeless), tuple(notes))


def holdings(
    cpu: CpuState | None, memory: MemoryState | None, devices: SavedDevices | None
) -> Holdings:
    """What the state files say that each container holds."""
    found: Holdings = {}

    def of(uid: str, container: str) -> Holding:
        return found.setdefault(uid, {}).setdefault(container, Holding())

    if cpu is not None:
        for uid, sets in cpu.entries.items():
            for name, mask in sets.items():
                of(uid, name).cpus = mask
        for uid in cpu.pod_sets:
            found.setdefault(uid, {})  # it may have no container yet
    if memory is not None:
        for uid, containers in memory.entries.items():
            for name, blocks in containers.items():
                of(uid, name).memory = blocks
    if devices is not None:
        for uid, given in devices.entries.items():
            for name, resources in given.items():
                of(uid, name).devices = {resource: h.ids for resource, h in resources.items()}
    return found


def _of_pod(uid: str, cpu: CpuState | None, memory: MemoryState | None) -> Holding:
    return Holding(
        0 if cpu is None else cpu.pod_sets.get(uid, 0),
        () if memory is None else memory.pod_blocks.get(uid, ()),
    )


def stand_in(
    uid: str, held: Mapping[str, Holding], name: str | None, whole: Holding | None = None
) -> Pod:
    """A pod that asks for what it holds.

    A container that shares CPUs or devices with a later one of its pod has finished: an init
    container. Anything with CPUs of its own is Guaranteed.
    """
    namespace, _, own_name = (name or f"/{UNKNOWN} {uid}").partition("/")
    init, apps = [], []
    for container, holding in held.items():
        others = [h for other, h in held.items() if other != container]
        amounts = holding.amounts()
        if any(_shares(holding, other) for other in others) and _is_first(container, held):
            init.append(Container(container, amounts, amounts, is_init=True))
        else:
            apps.append(Container(container, amounts, amounts))
    pinned = any(holding.cpus for holding in held.values())
    requests = (whole.amounts() if whole is not None else {}) or None
    return Pod(
        uid,
        own_name,
        namespace,
        tuple(init),
        tuple(apps),
        requests,
        requests,
        qos=Qos.GUARANTEED if pinned or requests else None,
    )


def _shares(one: Holding, other: Holding) -> bool:
    return bool(one.cpus & other.cpus) or any(
        set(ids) & set(other.devices.get(name, ())) for name, ids in one.devices.items()
    )


def _is_first(container: str, held: Mapping[str, Holding]) -> bool:
    """Whether a container that shares is not the last of those that share with it."""
    own = held[container]
    sharing = [name for name, other in held.items() if name == container or _shares(own, other)]
    return sharing[-1] != container


def _match(
    held: Mapping[str, Holding], name: str | None, loose: Iterable[Pod], host: Host
) -> Pod | None:
    """The one pod without uid that this may be: by name, or by what it asks for."""
    fitting = [pod for pod in loose if _may_hold(pod, held, host)]
    if name is not None:
        # A static pod is called after its manifest and its host.
        fitting = [pod for pod in fitting if f"{name}-".startswith(f"{pod.namespace}/{pod.name}-")]
    return fitting[0] if len(fitting) == 1 else None


def _may_hold(pod: Pod, held: Mapping[str, Holding], host: Host) -> bool:
    containers = {c.name: c for c in pod.in_order}
    for name, holding in held.items():
        container = containers.get(name)
        if container is None or not _asks_for(pod, container, holding, host):
            return False
    return True


def _asks_for(pod: Pod, container: Container, holding: Holding, host: Host) -> bool:
    if holding.cpus and exclusive_cpus(pod, container, host.settings) != holding.cpus.bit_count():
        return False
    amounts = {k: v for k, v in holding.amounts().items() if k != "cpu"}
    return all(container.requests.get(name) == amount for name, amount in amounts.items())


def _would_hold(pod: Pod, host: Host) -> bool:
    if host.cpu is not None and any(exclusive_cpus(pod, c, host.settings) for c in pod.in_order):
        return True
    if host.memory is not None and qos_class(pod, host.settings) is Qos.GUARANTEED:
        return True
    return any(
        "/" in name and amount.nanos > 0 for c in pod.in_order for name, amount in c.limits.items()
    )


# What the PodResources API says beside the files.


@dataclass(frozen=True, slots=True)
class _Listed:
    """The pods that the API lists, which are all that are active."""

    uids: frozenset[str]
    is_doubtful: bool  # API and files disagree: the host was changing, or they are of two hosts
    notes: tuple[str, ...]


def _listed(views: Iterable[PodView], held: Holdings, names: dict[str, str]) -> _Listed:
    """Finds the pods by name or by what they hold, and says where API and files disagree."""
    notes = []
    seen: set[str] = set()
    by_name: dict[str, list[str]] = {}  # one that was made again has the name of the one before
    for uid, name in names.items():
        by_name.setdefault(name, []).append(uid)
    for view in views:
        full = f"{view.namespace}/{view.name}"
        own = [c for c in (*view.sidecars, *view.apps) if c.cpus or c.memory or c.devices]
        called = by_name.get(full, [])
        fitting = [uid for uid in called if not own or _agrees(own, held.get(uid, {}))]
        if not called and own:
            fitting = [u for u, h in held.items() if u not in names and _agrees(own, h)]
            if len(fitting) == 1:
                names[fitting[0]] = full
        seen.update(fitting)
        if own and (not fitting or (not called and len(fitting) > 1)):
            notes.append(
                f"PodResources and the state files disagree about {full}: the API says "
                f"{'; '.join(map(_said, own))}. The files count here; was the host changing?"
            )
    is_doubtful = bool(notes)
    lost = [uid for uid in held if uid not in seen]
    if lost:
        shown = f"{', '.join(names.get(uid, uid) for uid in lost[:3])}{', …' * (len(lost) > 3)}"
        then = "" if is_doubtful else ": they are gone, and the next admission frees it"
        notes.append(
            f"the state files hold something for {len(lost)} pods that PodResources does not list "
            f"({shown}){then}."
        )
    return _Listed(frozenset(seen), is_doubtful, tuple(notes))


def _agrees(containers: Iterable[ContainerView], held: Mapping[str, Holding]) -> bool:
    for container in containers:
        own = held.get(container.name)
        if own is None or mask_of(container.cpus) != own.cpus:
            return False
        if sorted(_block(b) for b in container.memory) != sorted(_block(b) for b in own.memory):
            return False
        given = {(use.resource, use.id) for use in container.devices}
        if given != {(name, device) for name, ids in own.devices.items() for device in ids}:
            return False
    return True


def _block(block: Block) -> tuple[str, int, tuple[int, ...]]:
    return block.type, block.size, tuple(sorted(block.nodes))


def _said(container: ContainerView) -> str:
    parts = []
    if container.cpus:
        parts.append(f"CPUs {format_list(mask_of(container.cpus))}")
    parts += [f"{block.size} bytes of {block.type}" for block in container.memory]
    parts += sorted({f"{use.resource} {use.id}" for use in container.devices})
    return f"{container.name} has {', '.join(parts)}"


def _idle(
    views: Iterable[PodView], pods: dict[str, Pod], names: dict[str, str], *, known: bool
) -> list[str]:
    """Pods that hold nothing and that only the API names: they count as pods."""
    taken = set(names.values())
    added = 0
    for view in views:
        full = f"{view.namespace}/{view.name}"
        if full in taken:
            continue
        containers = tuple(Container(c.name) for c in (*view.sidecars, *view.apps))
        pods[full] = Pod(full, view.name, view.namespace, (), containers)
        names[full] = full
        added += 1
    if added and known:
        return [f"{added} pods that PodResources lists are not among the given pods; {NOT_ASKED}"]
    return []
