"""Tries a workload with every setting of a host, and says which configuration suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from numalign.apps.snapshots import declared
from numalign.apps.snapshots.inputs import LoadedSnapshot
from numalign.apps.snapshots.loading import settings_of
from numalign.core.errors import ConfigError, StartError, WireError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet import older_versions
from numalign.core.kubelet.admission import node_fit
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.pod import Pod
from numalign.core.settings import Settings
from numalign.core.values.sizes import human
from numalign.core.what_if import reservation_advice, settings_advice
from numalign.core.what_if.change_cost import ChangeCost, cost_of
from numalign.core.what_if.reservation_advice import Reservations
from numalign.core.what_if.settings_advice import Advice, Going, Trial
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet import edit
from numalign.wire.kubelet.config import KubeletConfig, document_of

HEAD = ("POLICY", "SCOPE", "MEMORY", "ADMITTED", "ALIGNED", "STRANDED", "DISTANCE", "OPTIONS")
NUMBERS = (3, 4, 5, 6)  # columns of numbers


@dataclass(frozen=True, slots=True)
class Advised:
    """What came of the trials. Nothing is recommended if no settings admit any of the pods."""

    loaded: LoadedSnapshot
    advice: Advice
    reservations: Reservations
    config: KubeletConfig | None  # the recommended one
    cost: ChangeCost
    unoffered: tuple[str, ...]  # resources that are asked for and that nothing offers

    @property
    def drop_in(self) -> dict[str, Any] | None:
        """The recommended keys as a drop-in for the kubelet's --config-dir."""
        return None if self.config is None else edit.drop_in(self.loaded.config, self.config)

    @property
    def text(self) -> str:
        """The drop-in as YAML; empty where nothing is recommended."""
        return "" if self.config is None else yaml.safe_dump(self.drop_in, sort_keys=False)


def advised(loaded: LoadedSnapshot, pods: Sequence[Pod], *, going: Going) -> Advised:
    """The workload on the host without its pods, with every combination of settings."""
    snapshot = loaded.snapshot
    info = snapshot.host.info
    found = reservation_advice.reservations(snapshot.host.settings, info)
    base = reservation_advice.applied(snapshot.host.settings, found)
    pods_max = snapshot.totals[node_fit.PODS]

    def totals(settings: Settings) -> node_fit.Totals:
        return node_fit.allocatable(settings, info, pods_max=pods_max)

    older = loaded.inputs.older
    barred = older_versions.unusable_options(older, loaded.config.feature_gates) if older else None
    result = settings_advice.advise(
        snapshot.machine,
        base,
        info,
        snapshot.state.devices,
        totals,
        pods,
        going,
        barred or frozenset(),
    )
    missing = tuple(declared.unoffered(snapshot, pods))
    best = result.best
    if best is None or not best.admitted:
        return Advised(loaded, result, found, None, ChangeCost(), missing)
    config = _configured(loaded.config, best.settings)
    _check_drop_in(loaded, config, best.settings)
    cost = cost_of(snapshot.host.settings, _settings(loaded, config))
    return Advised(loaded, result, found, config, cost, missing)


# The configuration.


def _configured(config: KubeletConfig, settings: Settings) -> KubeletConfig:
    return replace(
        config,
        topology_policy=settings.topology_policy,
        topology_scope=settings.topology_scope,
        topology_options=settings.topology_options,
        cpu_policy=settings.cpu_policy,
        cpu_options=settings.cpu_options,
        reserved_system_cpus=settings.reserved_cpus,
        memory_policy=settings.memory_policy,
        reserved_memory=settings.reserved_memory if settings.memory_policy == "Static" else (),
    )


def _settings(loaded: LoadedSnapshot, config: KubeletConfig) -> Settings:
    return settings_of(replace(loaded.inputs, config=config))[1]


def _check_drop_in(loaded: LoadedSnapshot, config: KubeletConfig, settings: Settings) -> None:
    """The drop-in over the present file gives what was tried, and a kubelet that starts."""
    patch = edit.drop_in(loaded.config, config)
    text = yaml.safe_dump(edit.merged(document_of(loaded.config), patch), sort_keys=False)
    read = _settings(loaded, kubelet_config.load(text, version=settings.version))
    hosts.start(hosts.build(read, machine_info(loaded.snapshot.machine)))
    same = replace(settings, reserved_memory=read.reserved_memory)
    assert read == same, "the written configuration must mean what was tried"


def changed_file(found: Advised, data: bytes, path: str) -> bytes:
    """A kubelet's file with the recommended keys changed; ConfigError if that does not come out.

    It is read back, and the managers are started with it, before anybody writes it.
    """
    assert found.config is not None, "there is something to write"
    settings = _settings(found.loaded, found.config)
    try:
        new = edit.edited(data, found.config)
        read = _settings(found.loaded, kubelet_config.load(new, version=settings.version))
        hosts.start(hosts.build(read, machine_info(found.loaded.snapshot.machine)))
    except (ConfigError, WireError, StartError) as error:
        raise ConfigError(f"{path}: cannot be changed, and is left as it is: {error}") from error
    if read != settings:
        raise ConfigError(
            f"{path}: its other keys differ from those that were tried, so it is left as it is. "
            f"Give it with --kubelet-config too, and it is what is tried."
        )
    return new


def changed_keys(found: Advised) -> list[str]:
    """The keys whose values the recommendation changes."""
    if found.config is None:
        return []
    old, new = (edit.advised_values(c) for c in (found.loaded.config, found.config))
    return [name for name in edit.ADVISED if old[name] != new[name]]


# For people and for machines.


def row(trial: Trial) -> tuple[str, ...]:
    settings = trial.settings
    distance = trial.mean_distance
    return (
        settings.topology_policy,
        "-" if settings.topology_policy == "none" else settings.topology_scope,
        settings.memory_policy,
        f"{trial.admitted}/{trial.pods}",
        f"{trial.aligned}/{trial.with_own}",
        f"{trial.stranded_cpus} CPUs, {human(trial.stranded_bytes)}",
        "-" if distance is None else f"{distance:.1f}",
        ", ".join(trial.options) or "-",
    )


def as_data(found: Advised) -> dict[str, Any]:
    """All of it as plain values, ready for JSON."""
    return {
        "complete": found.advice.complete,
        "trials": [_trial_data(trial) for trial in found.advice.trials],
        "impossible": [
            {**_settings_data(settings), "error": text}
            for settings, text in found.advice.impossible
        ],
        "reasons": list(found.advice.reasons),
        "reservations": {
            "reservedSystemCPUs": found.reservations.cpus,
            "reservedMemory": [
                {"numaNode": item.node, "limits": {item.type: str(item.amount)}}
                for item in found.reservations.memory
            ],
            "reasons": list(found.reservations.reasons),
        },
        "dropIn": found.drop_in,
        "changes": changed_keys(found),
        "cost": {
            "restart": found.cost.restart,
            "drain": found.cost.drain,
            "deletes": list(found.cost.deletes),
        },
        "unoffered": list(found.unoffered),
    }


def _settings_data(settings: Settings) -> dict[str, Any]:
    return {
        "topologyManagerPolicy": settings.topology_policy,
        "topologyManagerScope": settings.topology_scope,
        "topologyManagerPolicyOptions": dict(settings.topology_options),
        "cpuManagerPolicyOptions": dict(settings.cpu_options),
        "memoryManagerPolicy": settings.memory_policy,
    }


def _trial_data(trial: Trial) -> dict[str, Any]:
    return {
        **_settings_data(trial.settings),
        "pods": trial.pods,
        "admitted": trial.admitted,
        "refused": [{"pod": pod, "reason": reason} for pod, reason in trial.refused],
        "withOwn": trial.with_own,
        "aligned": trial.aligned,
        "strandedCpus": trial.stranded_cpus,
        "strandedBytes": trial.stranded_bytes,
        "meanDistance": None if trial.mean_distance is None else round(trial.mean_distance, 2),
    }
