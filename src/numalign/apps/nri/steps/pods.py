"""From what the runtime says of a pod to the pod that the managers decide about.

With the list of containers that our admission policy writes, the pod is decided as a whole at its
first container, as the kubelet does. Without it each container is decided when it is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numalign.apps.nri.annotations import (
    CONTAINERS,
    EXCLUSIVE,
    PREFIX,
    ChoiceError,
    PodOptions,
)
from numalign.apps.nri.model import PodEntry
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Container, Pod, Qos, exclusive_cpus
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity
from numalign.core.views.podresources import View
from numalign.wire.nri import pod_facts
from numalign.wire.nri.values import Container as RuntimeContainer
from numalign.wire.nri.values import Sandbox


def entry_of(pod: Sandbox, before: PodEntry | None) -> PodEntry:
    """What is known of a pod after one more of its sandboxes was told."""
    ours = {key: text for key, text in pod.annotations.items() if key.startswith(PREFIX)}
    return PodEntry(
        pod.uid,
        pod.name,
        pod.namespace,
        pod_facts.qos_of(pod.cgroup_parent),
        ours,
        frozenset({pod.id}) | (frozenset() if before is None else before.sandboxes),
        () if before is None else before.seen,
    )


def with_seen(entry: PodEntry, container: RuntimeContainer) -> PodEntry:
    """The entry after a container came; one of the same name is a restart of it."""
    requests = pod_facts.requests_of(container.resources)
    found = Container(container.name, requests, dict(requests))
    if any(one.name == container.name for one in entry.seen):
        seen = tuple(found if one.name == container.name else one for one in entry.seen)
        return replace(entry, seen=seen)
    return replace(entry, seen=(*entry.seen, found))


def core_pod(entry: PodEntry, options: PodOptions, held: Mapping[str, int]) -> Pod:
    """The pod for the managers; ChoiceError if it wants CPUs of its own that nobody can give.

    ``held`` are CPUs of containers that are not there at the moment: they are kept for them.
    """
    declared = options.declared
    first: tuple[Container, ...] = ()
    if declared is None:
        names = {one.name for one in entry.seen}
        absent = [_holder(name, cpus) for name, cpus in held.items() if name not in names]
        apps = (*entry.seen, *absent)
    else:
        first, apps = declared.init_containers, declared.containers
    is_guaranteed = entry.qos is Qos.GUARANTEED
    first = tuple(_wanted(one, options, is_guaranteed=is_guaranteed) for one in first)
    apps = tuple(_wanted(one, options, is_guaranteed=is_guaranteed) for one in apps)
    # A pod with containers that were chosen is treated as Guaranteed: those that were not chosen
    # ask for no CPU here.
    qos = Qos.GUARANTEED if options.exclusive else entry.qos or Qos.BEST_EFFORT
    return Pod(entry.uid, entry.name, entry.namespace, first, apps, qos=qos)


def _holder(name: str, cpus: int) -> Container:
    requests = {"cpu": Quantity.of(cpus.bit_count())}
    return Container(name, requests, requests)


def _wanted(container: Container, options: PodOptions, *, is_guaranteed: bool) -> Container:
    if options.exclusive is None:
        return container
    if container.name in options.exclusive:
        amount = container.requests.get("cpu")
        if amount is None or amount.is_zero or amount.milli() % 1000:
            found = "no CPU" if amount is None else f"{amount} CPUs"
            raise ChoiceError(
                f"annotation {EXCLUSIVE}: container {container.name} asks for {found}, expected "
                "a whole number of CPUs"
            )
        return container
    # Of a Guaranteed pod the memory is still placed; in any other pod only chosen containers are.
    kept = {
        name: amount
        for name, amount in container.requests.items()
        if name != "cpu" and is_guaranteed
    }
    return replace(container, requests=kept, limits=dict(kept))


def check_declared(pod: Pod, container: RuntimeContainer, settings: Settings) -> None:
    """ChoiceError if a container is not what the list of containers says of it.

    The list is an annotation, and whoever can write annotations could ask for more CPUs than the
    pod pays for.
    """
    found = next((one for one in pod.in_order if one.name == container.name), None)
    if found is None:
        return
    count = exclusive_cpus(pod, found, settings)
    actual = pod_facts.requests_of(container.resources).get("cpu")
    if count and (actual is None or actual.milli() != count * 1000):
        raise ChoiceError(
            f"annotation {CONTAINERS}: says {count} CPUs for container {container.name}, which "
            f"is created with {actual or 0}; a pod with CPUs of its own cannot be resized: "
            "delete it"
        )


def is_whole_pod(pod: Sandbox, container: RuntimeContainer) -> bool:
    """Whether a container has all that its pod has: then there is no other one."""
    whole, own = pod.resources, container.resources
    return whole.shares == own.shares and whole.memory_limit == own.memory_limit


def with_devices(pod: Pod, view: View | None) -> Pod:
    """The pod asking for the devices that its containers were given already, and for no others.

    Devices are the kubelet's to give.
    """
    counts = {
        one.name: {
            name: len({use.id for use in one.devices if use.resource == name})
            for name in {use.resource for use in one.devices}
        }
        for found in (() if view is None else view.pods)
        if (found.namespace, found.name) == (pod.namespace, pod.name)
        for one in (*found.sidecars, *found.apps)
    }
    return replace(
        pod,
        init_containers=_asking(pod.init_containers, counts),
        containers=_asking(pod.containers, counts),
    )


def _asking(
    containers: Iterable[Container], counts: Mapping[str, Mapping[str, int]]
) -> tuple[Container, ...]:
    return tuple(
        replace(
            one,
            limits={
                **{name: amount for name, amount in one.limits.items() if "/" not in name},
                **{name: Quantity.of(n) for name, n in counts.get(one.name, {}).items()},
            },
        )
        for one in containers
    )


def held_cpus(state: HostState, uid: str) -> Mapping[str, int]:
    return state.cpu.entries.get(uid, {})
