"""Which kinds of vector files there are, and how to tell and replay each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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


def _is_state(*keys: str) -> Callable[[Json], bool]:
    """Whether the line is about a written state file with these members."""
    return lambda line: "state" in line and all(key in line["state"] for key in keys)


def _both(first: Callable[[Json], bool], second: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda line: first(line) and second(line)


KINDS: Final = (
    Kind("live", lambda line, _: live(line), _has("kubernetes", "config", "machine", "steps")),
    Kind(
        "scenarios",
        lambda line, at: scenario(line, at.version),
        lambda line: "scenario" in line and "pod" not in line["expected"],
    ),
    Kind(
        "resize",
        lambda line, at: scenario(line, at.version),
        lambda line: False,  # its lines are scenarios
    ),
    Kind(
        "provider_hints",
        lambda line, at: units.provider_hints(line, at.version),
        lambda line: "scenario" in line and "pod" in line["expected"],
    ),
    Kind("bitmask_order", lambda line, _: units.bitmask_order(line), _has("masks_in_order")),
    Kind("numa_distance", lambda line, _: units.numa_distance(line), _has("closest", "narrowest")),
    Kind("hint_merge", lambda line, _: units.hint_merge(line), _has("providers", "policy")),
    Kind("topology_merge", lambda line, _: units.topology_merge(line), _has("providers", "result")),
    Kind("take_cpus", lambda line, at: units.take_cpus(line, at.version), _has("cases")),
    Kind("take_distributed", lambda line, at: units.take_cpus(line, at.version), _has("cases")),
    Kind(
        "cpu_take",
        lambda line, at: units.cpu_take(line, _topologies(at.folder)),
        _has("topo", "mode"),
    ),
    Kind(
        "cpu_hints",
        lambda line, at: units.cpu_hints(line, _topologies(at.folder)),
        _has("topo", "hints"),
    ),
    Kind("device_hints", lambda line, _: units.device_hints(line), _has("devices", "split")),
    Kind("memory_sequences", lambda line, _: memory_sequence(line), _has("ops", "topologyPolicy")),
    Kind(
        "pod_resources",
        lambda line, at: units.pod_resources(line, at.version),
        _has("pod", "qos"),
    ),
    Kind("cpuset", lambda line, _: checkpoints.cpuset(line), _has("op")),
    Kind("quantity", lambda line, _: checkpoints.quantity(line), _has("in")),
    Kind(
        "checkpoint_restore",
        lambda line, at: checkpoints.checkpoint_restore(line, at.version),
        _has("manager", "file"),
    ),
    Kind(
        "checkpoint_cpu_v4",
        lambda line, _: checkpoints.checkpoint_cpu_v4(line),
        _both(_has("data_checksum"), _is_state("defaultCpuSet")),
    ),
    Kind(
        "checkpoint_memory_v3",
        lambda line, _: checkpoints.checkpoint_memory_v3(line),
        _both(_has("data_checksum"), _is_state("machineState")),
    ),
    Kind(
        "checkpoint_cpu",
        lambda line, _: checkpoints.checkpoint_cpu(line),
        _both(_has("hash_input"), _is_state("defaultCpuSet")),
    ),
    Kind(
        "checkpoint_memory",
        lambda line, _: checkpoints.checkpoint_memory(line),
        _both(_has("hash_input"), _is_state("machineState")),
    ),
    Kind(
        "checkpoint_device",
        lambda line, _: checkpoints.checkpoint_device(line),
        _both(_has("hash_input"), _is_state("PodDeviceEntries")),
    ),
    Kind("filter", lambda line, _: cluster.host_filter(line), _has("node_allocatable", "app")),
    Kind("leastnuma", lambda line, _: cluster.least_numa(line), _has("max_numa_nodes", "score")),
    Kind("score", lambda line, _: cluster.host_score(line), _has("zones", "containers", "score")),
    Kind(
        "fingerprint",
        lambda line, _: cluster.pod_set_fingerprint(line),
        _has("pods", "fingerprint"),
    ),
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
