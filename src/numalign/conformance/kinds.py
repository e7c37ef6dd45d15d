"""Which kinds of vector files there are, and how to tell and replay each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Final

from numalign.conformance import checkpoints, cluster, units
from numalign.conformance.live import live
from numalign.conformance.memory_sequences import memory_sequence
from numalign.conformance.reading import Json
from numalign.conformance.scenarios import scenario
from numalign.core.errors import WireError
from numalign.core.settings import Version

TOPOLOGIES_NAME: Final = "cpu_topologies.json"


@dataclass(frozen=True, slots=True)
class Context:
    """What a replay may need beside the line: the version and where the file lies."""

    version: Version
    folder: Path


@dataclass(frozen=True, slots=True)
class Kind:
    name: str  # how such files are called, up to the first dot
    replay: Callable[[Json, Context], list[str]]
    is_like: Callable[[Json], bool]  # whether a line is of this kind, for other file names


@cache
def _topologies(folder: Path) -> Json:
    """The named CPU topologies: those beside the file, or else our own copy."""
    beside = folder / TOPOLOGIES_NAME
    if beside.is_file():
        text = beside.read_text()
    else:
        text = resources.files(__package__).joinpath(TOPOLOGIES_NAME).read_text()
    found: Json = json.loads(text)
    return found


def _has(*keys: str) -> Callable[[Json], bool]:
    return lambda line: all(key in line for key in keys)


def _is_state(key: str, inner: str) -> Callable[[Json], bool]:
    """Whether the line is about a written state file with this member."""
    return lambda line: key in line and inner in line.get("state", ())


def _plain(name: str, replay: Callable[[Json], list[str]], is_like: Callable[[Json], bool]) -> Kind:
    return Kind(name, lambda line, _: replay(line), is_like)


def _versioned(
    name: str, replay: Callable[[Json, Version], list[str]], is_like: Callable[[Json], bool]
) -> Kind:
    return Kind(name, lambda line, at: replay(line, at.version), is_like)


def _on_topology(name: str, replay: Callable[[Json, Json], list[str]], *keys: str) -> Kind:
    return Kind(name, lambda line, at: replay(line, _topologies(at.folder)), _has(*keys))


def _is_scenario(line: Json, *, of_pod: bool) -> bool:
    return "scenario" in line and ("pod" in line["expected"]) is of_pod


KINDS: Final = (
    _plain("live", live, _has("kubernetes", "config", "machine", "steps")),
    _versioned("scenarios", scenario, partial(_is_scenario, of_pod=False)),
    _versioned("resize", scenario, lambda line: False),  # its lines are scenarios
    _versioned("provider_hints", units.provider_hints, partial(_is_scenario, of_pod=True)),
    _plain("bitmask_order", units.bitmask_order, _has("masks_in_order")),
    _plain("numa_distance", units.numa_distance, _has("closest", "narrowest")),
    _plain("hint_merge", units.hint_merge, _has("providers", "policy")),
    _plain("topology_merge", units.topology_merge, _has("providers", "result")),
    _versioned("take_cpus", units.take_cpus, _has("cases")),
    _versioned("take_distributed", units.take_cpus, _has("cases")),
    _on_topology("cpu_take", units.cpu_take, "topo", "mode"),
    _on_topology("cpu_hints", units.cpu_hints, "topo", "hints"),
    _plain("device_hints", units.device_hints, _has("devices", "split")),
    _plain("memory_sequences", memory_sequence, _has("ops", "topologyPolicy")),
    _versioned("pod_resources", units.pod_resources, _has("pod", "qos")),
    _plain("cpuset", checkpoints.cpuset, _has("op")),
    _plain("quantity", checkpoints.quantity, _has("in")),
    _versioned("checkpoint_restore", checkpoints.checkpoint_restore, _has("manager", "file")),
    _plain(
        "checkpoint_cpu_v4",
        checkpoints.checkpoint_cpu,
        _is_state("data_checksum", "defaultCpuSet"),
    ),
    _plain(
        "checkpoint_memory_v3",
        checkpoints.checkpoint_memory,
        _is_state("data_checksum", "machineState"),
    ),
    _plain("checkpoint_cpu", checkpoints.checkpoint_cpu, _is_state("hash_input", "defaultCpuSet")),
    _plain(
        "checkpoint_memory", checkpoints.checkpoint_memory, _is_state("hash_input", "machineState")
    ),
    _plain(
        "checkpoint_device",
        checkpoints.checkpoint_device,
        _is_state("hash_input", "PodDeviceEntries"),
    ),
    _plain("filter", cluster.host_filter, _has("node_allocatable", "app")),
    _plain("leastnuma", cluster.least_numa, _has("max_numa_nodes", "score")),
    _plain("score", cluster.host_score, _has("zones", "containers", "score")),
    _plain("fingerprint", cluster.pod_set_fingerprint, _has("pods", "fingerprint")),
)


def kind_of(path: Path, first_line: Json) -> Kind:
    """The kind of a file, by its name or else by its first line."""
    stem = path.name.partition(".")[0].partition("-")[0]
    for kind in KINDS:
        if kind.name == stem:
            return kind
    for kind in KINDS:
        if kind.is_like(first_line):
            return kind
    raise WireError(
        f"{path}: the first line has the members {sorted(first_line)}, expected one of the known "
        f"kinds of vectors ({', '.join(kind.name for kind in KINDS)})"
    )
