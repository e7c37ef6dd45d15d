"""The kubelet's configuration file, as far as it decides where work is placed.

``load`` reads and checks a KubeletConfiguration. Everything that is wrong with it is said at
once, one line each, in the kubelet's own words where it has words for it. ``settings_for``
then reduces it to what the managers of one machine are configured with, and ``document_of``
writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from numalign.core.config import feature_gates, reservations
from numalign.core.errors import ConfigError, WireError
from numalign.core.settings import GATE_DEFAULTS, Fidelity, Settings, Version
from numalign.core.values.gotext import quoted
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet import checks as _kubelet_checks
from numalign.wire.kubelet.keys import KEYS, USED_KEYS, KubeletConfig, unused_keys
from numalign.wire.kubelet.typed_members import TypedMembers, shown

__all__ = ["API_VERSION", "KIND", "USED_KEYS", "KubeletConfig", "load", "settings_for"]

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"


def load(data: bytes | str, *, version: Version, strict: bool = True) -> KubeletConfig:
    """The configuration in a YAML or JSON text; ConfigError with one line for each fault.

    The kubelet itself only warns of unknown keys and goes on without them. We refuse them,
    because a mistyped key silently means a default; ``strict=False`` passes over them too.
    """
    try:
        content = plain_yaml.load(
            data.encode(errors="surrogatepass") if isinstance(data, str) else data
        )
    except WireError as exc:
        raise ConfigError(f"the kubelet configuration: {exc}") from exc
    if not isinstance(content, dict):
        raise ConfigError(
            f"the kubelet configuration: found {shown(content)}, expected a map with "
            f"apiVersion {API_VERSION} and kind {KIND}"
        )
    members = TypedMembers(content)
    faults = _header_faults(members)
    if faults:
        raise ConfigError("\n".join(faults))
    if strict:
        known = USED_KEYS | unused_keys(version)
        faults += [f"unknown field {quoted(key)}" for key in sorted(content) if key not in known]
    config = _config(members)
    faults += members.faults + _kubelet_checks.faults(config, version)
    if faults:
        raise ConfigError("\n".join(faults))
    return config


def load_older(data: bytes | str) -> tuple[KubeletConfig, tuple[str, ...]]:
    """The configuration of a kubelet before 1.36, and the feature gates that 1.36 does not take.

    Keys that are gone since are passed over, too.
    """
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    try:
        content = plain_yaml.load(raw)
    except WireError as exc:
        raise ConfigError(f"the kubelet configuration: {exc}") from exc
    chosen = content.get("featureGates") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(chosen, dict):
        return load(data, version=Version.V1_36, strict=False), ()
    known = feature_gates.gates(Version.V1_36)
    gone = tuple(
        name
        for name, value in sorted(chosen.items())
        if name not in {*known, "AllAlpha", "AllBeta"}
        or (name in known and known[name].is_locked and value is not known[name].default)
    )
    kept = {name: value for name, value in chosen.items() if name not in gone}
    text = json.dumps({**content, "featureGates": kept})
    return load(text, version=Version.V1_36, strict=False), gone


def _header_faults(members: TypedMembers) -> list[str]:
    """What is wrong with the two keys that say what kind of file it is."""
    faults = []
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = members.values.get(key)
        if found != expected:
            faults.append(
                f"{key}: found {shown(found)}, expected {quoted(expected)}; "
                "give the file that the kubelet is started with (--config)"
            )
    return faults


def _config(members: TypedMembers) -> KubeletConfig:
    usual = KubeletConfig()
    return KubeletConfig(
        **{key.member: key.kind.read(members, key.name, getattr(usual, key.member)) for key in KEYS}
    )


def document_of(config: KubeletConfig) -> dict[str, Any]:
    """The configuration as a file that reads back the same; what is the default is left out."""
    if config.ignore_eviction:
        config = replace(config, eviction_hard={})
    usual = KubeletConfig()
    values = {key: (getattr(config, key.member), getattr(usual, key.member)) for key in KEYS}
    written = {
        key.name: key.kind.write(value)
        for key, (value, default) in values.items()
        if value != default
    }
    return {"apiVersion": API_VERSION, "kind": KIND, **written}


def reduced(document: Mapping[str, Any]) -> dict[str, Any]:
    """Only the members that placement depends on: none of them holds a secret."""
    return {key: document[key] for key in sorted(document) if key in USED_KEYS}


def settings_for(
    config: KubeletConfig,
    *,
    version: Version,
    cpu_count: int,
    online: CpuSet,
    memory_bytes: int,
    hugepage_bytes: Mapping[str, int] | None = None,
    fidelity: Fidelity = Fidelity.KUBELET,
) -> Settings:
    """What the managers of one machine are configured with.

    ``memory_bytes`` is MemTotal and ``hugepage_bytes`` the capacity per type such as
    ``hugepages-2Mi``. Raises ConfigError where the machine cannot bear the reservations.
    """
    try:
        reservation = _reservation(
            config, version, cpu_count, online, memory_bytes, hugepage_bytes or {}
        )
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc
    gates = feature_gates.effective(config.feature_gates, version)
    return Settings(
        version=version,
        fidelity=fidelity,
        topology_policy=config.topology_policy,
        topology_scope=config.topology_scope,
        topology_options=config.topology_options,
        cpu_policy=config.cpu_policy,
        cpu_options=config.cpu_options,
        reserved_cpus=config.reserved_system_cpus,
        memory_policy=config.memory_policy,
        reserved_memory=config.reserved_memory,
        node_allocatable_reservation=reservation,
        gates={
            name: gates[name]
            for name, default in GATE_DEFAULTS.items()
            if gates.get(name, default) != default
        },
    )


def _reservation(
    config: KubeletConfig,
    version: Version,
    cpu_count: int,
    online: CpuSet,
    memory_bytes: int,
    hugepage_bytes: Mapping[str, int],
) -> dict[str, Quantity]:
    kube = reservations.parse_reserved("--kube-reserved", config.kube_reserved, version)
    system = reservations.parse_reserved("--system-reserved", config.system_reserved, version)
    if config.reserved_system_cpus:
        count = reservations.reserved_cpu_count(config.reserved_system_cpus, online)
        kube.pop("cpu", None)
        system["cpu"] = Quantity.of(count)
    thresholds = (
        {} if config.ignore_eviction else reservations.parse_thresholds(config.eviction_hard)
    )
    capacity = {
        "cpu": Quantity.of(cpu_count),
        "memory": Quantity.of(memory_bytes, binary=True),
        **{kind: Quantity.of(size, binary=True) for kind, size in hugepage_bytes.items()},
    }
    return reservations.node_allocatable_reservation(system, kube, thresholds, capacity)
