"""Versions of Kubernetes whose decisions are not reproduced exactly: what is known to differ.

Exact are 1.36 and 1.37. For hosts back to 1.28 the rules of 1.36 stand in: the managers are the
same since then but for options, feature gates and small repairs. Milestones are those of the
enhancement proposals and of the documentation of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.kubelet.cpu import policy as cpu
from numalign.core.kubelet.topology import policy as topology
from numalign.core.settings import Version

OLDEST: Final = 28
EXACT: Final = {36: Version.V1_36, 37: Version.V1_37}
EXPECTED: Final = "1.36 or 1.37 (exact), or 1.28 to 1.35 (with the rules of 1.36)"
_TEXT: Final = re.compile(r"v?1\.(?P<minor>[0-9]{1,3})(?:[.+-][0-9A-Za-z.+-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The version of a host, and the version whose rules stand for it."""

    minor: int

    @property
    def rules(self) -> Version:
        return EXACT.get(self.minor, Version.V1_36)

    @property
    def is_exact(self) -> bool:
        return self.minor in EXACT

    def __str__(self) -> str:
        return f"1.{self.minor}"


def parsed(text: str) -> Kubernetes:
    """The version in a text such as 1.30 or v1.30.4+k3s1; ValueError for one without rules."""
    match = _TEXT.fullmatch(text)
    if match is None or not OLDEST <= int(match["minor"]) <= max(EXACT):
        raise ValueError(f"found {text!r}, expected {EXPECTED}")
    return Kubernetes(int(match["minor"]))


def of(version: Version) -> Kubernetes:
    return parsed(version.value)


@dataclass(frozen=True, slots=True)
class _Since:
    """The minor versions in which an option was first alpha, beta and stable; 0: not yet."""

    alpha: int
    beta: int = 0
    stable: int = 0

    @property
    def first(self) -> int:
        return self.alpha or self.beta

    def is_hidden(self, minor: int) -> bool:
        """Whether it could be used only with the gate for alpha options."""
        return not self.beta or minor < self.beta


CPU_OPTIONS: Final = {
    cpu.FULL_CORES: _Since(22, 23, 33),
    cpu.SPREAD_NUMA: _Since(23, 33),
    cpu.ALIGN_SOCKET: _Since(25),
    cpu.SPREAD_CORES: _Since(31),
    cpu.STRICT: _Since(32, 33, 35),
    cpu.UNCORE: _Since(32, 34, 36),
}
TOPOLOGY_OPTIONS: Final = {
    topology.CLOSEST: _Since(26, 28, 32),
    topology.MAX_NODES: _Since(0, 31, 35),
}
# Gates that are on by default in 1.36 and were off, or not there, before these versions.
ON_SINCE: Final = {"PodLevelResources": 34, "DisableCPUQuotaWithExclusiveCPUs": 33}
_CPU_ALPHA: Final = "CPUManagerPolicyAlphaOptions"
_TOPOLOGY_ALPHA: Final = "TopologyManagerPolicyAlphaOptions"
_SIDECARS_SINCE: Final = 29
_MEMORY_STABLE: Final = 32
_ACTIVE_PODS_SINCE: Final = 34


def gates_off(host: Kubernetes, chosen: Mapping[str, bool]) -> dict[str, bool]:
    """The gates that are off on such a host, unless somebody has chosen them."""
    return {n: False for n, since in ON_SINCE.items() if host.minor < since and n not in chosen}


def unusable_options(host: Kubernetes, gates: Mapping[str, bool]) -> frozenset[str]:
    """The options with which the kubelet of such a host would not start."""
    if host.is_exact:
        return frozenset()
    return frozenset(
        name
        for table, alpha in ((CPU_OPTIONS, _CPU_ALPHA), (TOPOLOGY_OPTIONS, _TOPOLOGY_ALPHA))
        for name, since in table.items()
        if host.minor < since.first or (since.is_hidden(host.minor) and not gates.get(alpha, False))
    )


def notes(
    host: Kubernetes,
    cpu_options: Mapping[str, str],
    topology_options: Mapping[str, str],
    gates: Mapping[str, bool],
) -> tuple[str, ...]:
    """What to know before trusting an answer about a host of this version and configuration."""
    if host.is_exact:
        return ()
    general = (
        f"Kubernetes {host}: answers follow the rules of 1.36, the closest of those that are exact "
        f"(1.36 and 1.37). What may differ: {'; '.join(_differences(host))}."
    )
    used = [
        _option_text(host, key, name, known[name])
        for key, given, known in (
            ("cpuManagerPolicyOptions", cpu_options, CPU_OPTIONS),
            ("topologyManagerPolicyOptions", topology_options, TOPOLOGY_OPTIONS),
        )
        for name in sorted(unusable_options(host, gates) & given.keys() & known.keys())
    ]
    return (general, *used)


def _differences(host: Kubernetes) -> Iterator[str]:
    every = {**CPU_OPTIONS, **TOPOLOGY_OPTIONS}
    missing = [name for name, since in every.items() if host.minor < since.first]
    if missing:
        yield f"there are no options {', '.join(missing)} yet"
    hidden = [
        name
        for name, since in every.items()
        if since.beta and since.first <= host.minor < since.beta
    ]
    if hidden:
        yield f"{', '.join(hidden)} still alpha, behind the gate for alpha options"
    if host.minor < ON_SINCE["PodLevelResources"]:
        yield "pod-level resources are taken as off"
    if host.minor < ON_SINCE["DisableCPUQuotaWithExclusiveCPUs"]:
        yield "containers with CPUs of their own still have a CPU quota"
    if host.minor < _MEMORY_STABLE:
        yield "the memory manager is beta, behind the gate MemoryManager (on by default)"
    if host.minor < _SIDECARS_SINCE:
        yield "sidecars (restartable init containers) are alpha and off"
    if host.minor < _ACTIVE_PODS_SINCE:
        yield "PodResources also lists pods that have ended"
    yield "repairs of the managers in later versions are taken as made"
    yield (
        "state files have the form of 1.36 (cpu_manager_state V2); one that 1.37 wrote (V4) cannot "
        "be taken back to this version"
    )


def _option_text(host: Kubernetes, key: str, name: str, since: _Since) -> str:
    if host.minor < since.first:
        return (
            f"{key}: {name} is there since 1.{since.first}: a kubelet of {host} would not start "
            "with it"
        )
    return (
        f"{key}: {name} is alpha in {host}: its kubelet would not start with it unless the feature "
        "gate for alpha options is on"
    )
