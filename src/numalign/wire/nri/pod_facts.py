"""What a container runtime knows of a pod: its class by its cgroup, its requests by its limits.

The runtime never sees the pod's specification. The kubelet turns a CPU request into shares and a
limit into a quota, both exactly enough to be turned back for whole CPUs; in a Guaranteed pod limits
and requests are the same. ``declared`` is the list of containers that our admission policy writes
on the pod, with which a pod can be decided as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from numalign.core.errors import WireError
from numalign.core.pod import Container, Qos
from numalign.core.values.quantity import Quantity, hugepage_type
from numalign.wire.nri.values import Resources

SHARES_PER_CPU: Final = 1024
SHARES_MIN: Final = 2  # what a container gets that asks for nothing
DECLARED_LENGTH_MAX: Final = 64 << 10
CONTAINERS_MAX: Final = 1000
_KINDS: Final = ("init", "sidecar", "app")
_UNITS: Final = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_PAGE: Final = re.compile(r"([0-9]{1,9})(KB|MB|GB)")
_FORM: Final = "expected KIND/NAME:RESOURCE=AMOUNT,... with ; between containers"


def qos_of(cgroup_parent: str) -> Qos | None:
    """The class by the pod's parent cgroup, of either driver; None if no kubelet has named it."""
    parts = [part for part in re.split(r"[/-]", cgroup_parent.replace(".slice", "")) if part]
    if "kubepods" not in parts:
        return None
    after = parts[parts.index("kubepods") + 1 :]
    if "burstable" in after:
        return Qos.BURSTABLE
    return Qos.BEST_EFFORT if "besteffort" in after else Qos.GUARANTEED


def cpu_limit_milli(found: Resources) -> int | None:
    """The CPU limit in thousandths, by the quota; None without one."""
    if found.quota is None or found.quota <= 0 or not found.period:
        return None
    return -(-found.quota * 1000 // found.period)


def cpu_request_milli(found: Resources) -> int | None:
    """The CPU request in thousandths, by the shares; None if there is none."""
    if found.shares is None or found.shares <= SHARES_MIN:
        return None
    return -(-found.shares * 1000 // SHARES_PER_CPU)


def requests_of(found: Resources) -> dict[str, Quantity]:
    """What a container asks for, as far as its limits tell."""
    requests: dict[str, Quantity] = {}
    milli = cpu_request_milli(found)
    if milli is None:
        milli = cpu_limit_milli(found)
    if milli is not None:
        requests["cpu"] = Quantity.of_milli(milli)
    if found.memory_limit is not None and found.memory_limit > 0:
        requests["memory"] = Quantity.of(found.memory_limit, binary=True)
    for size, limit in sorted(found.hugepages.items()):
        match = _PAGE.fullmatch(size)
        if match is not None:
            kind = hugepage_type(int(match[1]) * _UNITS[match[2]])
            requests[kind] = Quantity.of(limit, binary=True)
    return requests


@dataclass(frozen=True, slots=True)
class DeclaredPod:
    """All containers of a pod with their requests, as its specification has them."""

    init_containers: tuple[Container, ...]
    containers: tuple[Container, ...]


def declared(text: str) -> DeclaredPod:
    """The containers in an annotation; WireError with what is wrong with it."""
    if len(text) > DECLARED_LENGTH_MAX:
        raise WireError(f"found {len(text)} characters, expected {DECLARED_LENGTH_MAX} at most")
    found = [_declared_container(part) for part in text.split(";")]
    names = [container.name for container in found]
    if len(found) > CONTAINERS_MAX:
        raise WireError(f"found {len(found)} containers, expected {CONTAINERS_MAX} at most")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise WireError(f"found container {twice!r} twice")
    return DeclaredPod(
        tuple(one for one in found if one.is_init), tuple(one for one in found if not one.is_init)
    )


def _declared_container(text: str) -> Container:
    head, colon, resources = text.partition(":")
    kind, slash, name = head.partition("/")
    if not colon or not slash or kind not in _KINDS or not name:
        raise WireError(f"found {text[:80]!r}, {_FORM}")
    requests: dict[str, Quantity] = {}
    for item in resources.split(",") if resources else ():
        resource, equals, amount = item.rpartition("=")
        if not equals or not resource:
            raise WireError(f"found {item[:80]!r}, {_FORM}")
        try:
            requests[resource] = Quantity.parse(amount)
        except ValueError as error:
            raise WireError(f"{resource[:80]} of container {name[:80]}: {error}") from error
    return Container(name, requests, dict(requests), kind != "app", kind == "sidecar")
