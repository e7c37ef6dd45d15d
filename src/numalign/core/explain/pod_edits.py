"""A pod with other requests: what the search for causes and changes tries, edit by edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from numalign.core.pod import Container, Pod, Resources
from numalign.core.values.quantity import Quantity

_MI: Final = 1 << 20

Edit = tuple[str | None, str, Quantity | None]  # container (None: the pod itself), resource, amount


def edited(pod: Pod, edits: Iterable[Edit]) -> Pod:
    """The pod with other amounts; None takes the resource away.

    A limit that was equal to the request stays equal. The class is worked out anew.
    """
    for container, resource, amount in edits:
        if container is None:
            requests, limits = _other_amounts(
                pod.requests or {}, pod.limits or {}, resource, amount
            )
            pod = replace(pod, requests=requests, limits=limits)
        else:
            pod = with_container(
                pod, container, partial(_edited_container, resource=resource, amount=amount)
            )
    return replace(pod, qos=None)


def _edited_container(container: Container, resource: str, amount: Quantity | None) -> Container:
    requests, limits = _other_amounts(container.requests, container.limits, resource, amount)
    return replace(container, requests=requests, limits=limits)


def _other_amounts(
    requests: Resources, limits: Resources, resource: str, amount: Quantity | None
) -> tuple[Resources, Resources]:
    before, limit = requests.get(resource), limits.get(resource)
    new_requests = {k: v for k, v in requests.items() if k != resource}
    new_limits = {k: v for k, v in limits.items() if k != resource}
    if amount is not None:
        new_requests[resource] = amount
        if limit is not None:
            keeps = before not in {None, limit} and limit >= amount
            new_limits[resource] = limit if keeps else amount
    # The order of resources decides nothing but which message comes first: keep it.
    order = [*requests, *limits]
    return _sorted_like(new_requests, order), _sorted_like(new_limits, order)


def _sorted_like(amounts: dict[str, Quantity], order: list[str]) -> Resources:
    return {name: amounts[name] for name in sorted(amounts, key=order.index)}


def with_container(pod: Pod, name: str, edit: Callable[[Container], Container]) -> Pod:
    def over(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(edit(c) if c.name == name else c for c in containers)

    return replace(pod, init_containers=over(pod.init_containers), containers=over(pod.containers))


def amount_of(pod: Pod, container: str | None, resource: str) -> Quantity | None:
    if container is None:
        return (pod.requests or {}).get(resource, (pod.limits or {}).get(resource))
    for one in pod.in_order:
        if one.name == container:
            return one.requests.get(resource, one.limits.get(resource))
    return None


def holders_of(pod: Pod, resource: str) -> list[str | None]:
    """Who asks for a resource; None stands for the pod itself."""
    found: list[str | None] = [
        c.name for c in pod.in_order if resource in c.requests or resource in c.limits
    ]
    if resource in (pod.requests or {}):
        found.insert(0, None)
    return found


def least_of(resource: str) -> Quantity | None:
    """The least that can be asked for without changing the class of the pod.

    No CPU of its own, the smallest piece of memory, no device.
    """
    if resource == "cpu":
        return Quantity.of_milli(500)
    if resource == "memory":
        return Quantity.of(_MI, binary=True)
    return None


def unit_of(resource: str) -> int:
    """The bytes by which a request for memory is changed."""
    if resource.startswith("hugepages-"):
        return Quantity.parse(resource.removeprefix("hugepages-")).value()
    return _MI


def with_own_requests(pod: Pod, name: str, resources: Iterable[str]) -> Pod:
    """The pod in which a container asks for these, with equal limits: next to nothing if it did
    not ask before."""

    def more(container: Container) -> Container:
        amounts = {n: container.requests.get(n) or least_of(n) for n in resources}
        own = {n: amount for n, amount in amounts.items() if amount is not None}
        return replace(
            container,
            requests={**container.requests, **own},
            limits={**container.limits, **own},
        )

    return replace(with_container(pod, name, more), qos=None)
