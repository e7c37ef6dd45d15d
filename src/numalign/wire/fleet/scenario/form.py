"""The shape of a scenario file: hosts, work, schedulers, and what is to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

API_VERSION: Final = "numalign.io/v1"
KIND: Final = "Scenario"
HOSTS_MAX: Final = 20_000
PODS_MAX: Final = 1_000_000
SAMPLES_MAX: Final = 2_000
SEEDS_MAX: Final = 100
SCHEDULERS: Final = ("totals", "upstream", "numalign", "fragmentation")

PODS_PER_HOST_MAX: Final = 10_000
ATTEMPTS_MAX: Final = 1_000_000

Preset = Literal["telco", "gpu-training", "database", "web-mix"]
KnownVersion = Literal["1.36", "1.37"]
Arrivals = Literal["timed", "shuffled"]
Recreation = Literal["at-once", "back-off", "never"]
CHOICES: Final[Mapping[str | int, tuple[str, ...]]] = {
    "preset": get_args(Preset),
    "version": get_args(KnownVersion),
    "arrivals": get_args(Arrivals),
    "recreate": get_args(Recreation),
}
Amount = str | int


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Nothing is passed over: a word that we do not know is a mistake."""


class HostsForm(_Strict):
    """Some equal hosts, or those of a published list."""

    group: str = "host"
    count: int = 1
    machine: str | None = None  # as --machine takes
    openb: str | None = None  # or a list of cluster-trace-gpu-v2023
    capture: str | None = None  # or a file of 'numalign capture --cluster', with what runs there
    kubelet: dict[str, Any] = {}  # fields of the KubeletConfiguration
    version: KnownVersion = "1.36"
    devices: dict[str, int] = {}  # resource -> so many on each NUMA node with CPUs
    pods_max: int = 110


class WorkForm(_Strict):
    """Work from a generator, a published trace or a list of our own: exactly one of them."""

    preset: Preset | None = None
    openb: str | None = None
    dlrm: str | None = None
    recorded: str | None = None
    pods: int | None = None  # of a preset, or the first so many of a list
    hours: float = 24.0  # in which a preset's pods arrive
    load: float = 0.9  # of the fleet's CPUs that a preset keeps busy once it has settled
    arrivals: Arrivals = "timed"  # shuffled: one per second, none leaves


class ShapeForm(_Strict):
    cpu: Amount
    memory: Amount = "1Gi"
    others: dict[str, Amount] = {}
    weight: int = 1


class ControllersForm(_Strict):
    recreate: Recreation = "at-once"
    redeploy: bool = False
    attempts_max: int = 50


class VariantForm(_Strict):
    """What a variant changes; all else is as above."""

    name: str
    kubelet: dict[str, Any] = {}
    version: KnownVersion | None = None
    controllers: ControllersForm | None = None
    schedulers: list[str] | None = None


class ScenarioForm(_Strict):
    api_version: str
    kind: str
    hosts: list[HostsForm]
    work: list[WorkForm]
    name: str = "scenario"
    description: str = ""
    schedulers: list[str] = msgspec.field(default_factory=lambda: list(SCHEDULERS))
    controllers: ControllersForm = msgspec.field(default_factory=ControllersForm)
    seeds: str | int = "1-3"
    samples: int = 100
    mix: dict[str, ShapeForm] = {}  # the reference mix; empty: the most frequent of the work
    shapes: dict[str, ShapeForm] = {}  # whose capacity is followed; empty: the mix's largest
    variants: list[VariantForm] = []
