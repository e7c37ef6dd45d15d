"""Tries a workload with every setting of a host, and writes the configuration that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from numalign.apps.snapshots.inputs import LoadedSnapshot
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.pod import Pod
from numalign.core.settings import Settings
from numalign.core.values.sizes import human
from numalign.core.what_if import reservation_advice, settings_advice
from numalign.core.what_if.reservation_advice import Reservations
from numalign.core.what_if.settings_advice import Advice, Going, Trial
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import document_of
from numalign.wire.kubelet.host_settings import host_settings

HEAD = ("POLICY", "SCOPE", "MEMORY", "ADMITTED", "ALIGNED", "STRANDED", "DISTANCE", "OPTIONS")
NUMBERS = (3, 4, 5, 6)  # columns of numbers


@dataclass(frozen=True, slots=True)
class Advised:
    advice: Advice
    reservations: Reservations
    config: str  # a KubeletConfiguration as YAML; empty where nothing could be tried


def advised(loaded: LoadedSnapshot, pods: Sequence[Pod], *, going: Going) -> Advised:
    """The workload on the host without its pods, with every combination of settings."""
    snapshot = loaded.snapshot
    info = snapshot.host.info
    found = reservation_advice.reservations(snapshot.host.settings, info)
    base = reservation_advice.applied(snapshot.host.settings, found)
    pods_max = snapshot.totals[node_fit.PODS]

    def totals(settings: Settings) -> node_fit.Totals:
        return node_fit.allocatable(settings, info, pods_max=pods_max)

    result = settings_advice.advise(
        snapshot.machine, base, info, snapshot.state.devices, totals, pods, going
    )
    text = "" if result.best is None else config_text(loaded, result.best.settings)
    return Advised(result, found, text)


# The configuration.


def config_text(loaded: LoadedSnapshot, settings: Settings) -> str:
    """A KubeletConfiguration with these settings, checked by starting a kubelet's managers."""
    config = replace(
        loaded.config,
        topology_policy=settings.topology_policy,
        topology_scope=settings.topology_scope,
        topology_options=settings.topology_options,
        cpu_policy=settings.cpu_policy,
        cpu_options=settings.cpu_options,
        reserved_system_cpus=settings.reserved_cpus,
        memory_policy=settings.memory_policy,
        reserved_memory=settings.reserved_memory if settings.memory_policy == "Static" else (),
    )
    text = yaml.safe_dump(document_of(config), sort_keys=False)
    _check(loaded, text, settings)
    return text


def _check(loaded: LoadedSnapshot, text: str, settings: Settings) -> None:
    """The written file must give the very settings that were tried, and a kubelet that starts."""
    machine = loaded.snapshot.machine
    config = kubelet_config.load(text, version=settings.version)
    read = host_settings(config, machine, version=settings.version, fidelity=settings.fidelity)
    hosts.start(hosts.build(read, machine_info(machine)))
    same = replace(settings, reserved_memory=read.reserved_memory)
    assert read == same, "the written configuration must mean what was tried"


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


def reserved_lines(found: Advised) -> list[str]:
    """The lines of the configuration that are about reservations, ready to copy."""
    lines = [f'reservedSystemCPUs: "{found.reservations.cpus}"']
    if found.reservations.memory:
        lines.append("reservedMemory:")
    for item in found.reservations.memory:
        lines.append(f"- numaNode: {item.node}")
        lines.append(f"  limits: {{{item.type}: {item.amount}}}")
    return lines


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
        "config": yaml.safe_load(found.config) if found.config else None,
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
