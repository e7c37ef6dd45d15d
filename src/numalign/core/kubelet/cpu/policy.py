"""The static CPU policy of one host: its options, checked as the kubelet checks them, and its
reserved CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from numalign.core.errors import StartError
from numalign.core.kubelet.cpu.distribute import Distribution, EndlessLoopError, take_distributed
from numalign.core.kubelet.cpu.pack import NotEnoughCpusError, Strategy, take_packed
from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.settings import Fidelity, Settings, Version
from numalign.core.values import gotext
from numalign.core.values.sets import bits, format_list, parse_list

PHASE: Final = "cpu_manager"

FULL_CORES: Final = "full-pcpus-only"
STRICT: Final = "strict-cpu-reservation"
UNCORE: Final = "prefer-align-cpus-by-uncorecache"
SPREAD_NUMA: Final = "distribute-cpus-across-numa"
SPREAD_CORES: Final = "distribute-cpus-across-cores"
ALIGN_SOCKET: Final = "align-by-socket"

_BETA: Final = frozenset({SPREAD_NUMA})
_ALPHA: Final = frozenset({SPREAD_CORES, ALIGN_SOCKET})
OPTIONS: Final = frozenset({FULL_CORES, STRICT, UNCORE}) | _BETA | _ALPHA
_FORBIDDEN_PAIRS: Final = (
    (FULL_CORES, SPREAD_CORES),
    (SPREAD_NUMA, SPREAD_CORES),
    (UNCORE, SPREAD_CORES),
    (UNCORE, SPREAD_NUMA),
)


@dataclass(frozen=True)
class CpuPolicy:
    topology: CpuTopology
    options: frozenset[str]  # those that are on
    reserved: int
    reserved_cores: int  # every CPU of a core that has a reserved one
    version: Version
    fidelity: Fidelity

    @property
    def assignable(self) -> int:
        """Every CPU that may ever be in the shared pool or in a container's hands."""
        return self.topology.all & ~self.reserved if STRICT in self.options else self.topology.all

    @property
    def is_safe(self) -> bool:
        """Whether the kubelet's defects are repaired."""
        return self.fidelity is Fidelity.SAFE

    def choose(self, available: int, count: int) -> int:
        """The CPUs for a container, by the configured algorithm."""
        if self.distribution is not None:
            return take_distributed(self.topology, available, count, self.distribution)
        return take_packed(self.topology, available, count, self.strategy)

    @cached_property
    def strategy(self) -> Strategy:
        return Strategy(
            spread_cores=SPREAD_CORES in self.options,
            align_uncore=UNCORE in self.options,
            only_free=self.is_safe,
        )

    @cached_property
    def distribution(self) -> Distribution | None:
        """How CPUs are spread over NUMA nodes; None if they are packed."""
        if SPREAD_NUMA not in self.options:
            return None
        is_1_37 = self.version is Version.V1_37
        return Distribution(
            group=self.topology.cpus_per_core if FULL_CORES in self.options else 1,
            align_socket=ALIGN_SOCKET in self.options and is_1_37,
            v1_37=is_1_37,
            safe=self.is_safe,
        )


def cpu_policy(settings: Settings, topology: CpuTopology) -> CpuPolicy | None:
    """The configured policy, None for ``none``; StartError with the kubelet's words otherwise."""
    if settings.cpu_policy == "none":
        if settings.cpu_options:
            shown = gotext.map_text(dict(settings.cpu_options))
            raise StartError(
                PHASE,
                f"new none policy error: None policy: received unsupported options={shown}",
            )
        return None
    if settings.cpu_policy != "static":
        raise StartError(PHASE, f"unknown policy: {gotext.quoted(settings.cpu_policy)}")
    reserved_count = _reserved_count(settings)
    try:
        options = _options(settings)
        _check_socket_alignment(options, settings, topology)
        reserved = _reserved(settings, topology, options, reserved_count)
    except ValueError as error:
        raise StartError(PHASE, f"new static policy error: {error}") from error
    return CpuPolicy(
        topology,
        options,
        reserved,
        topology.cores_touched(reserved),
        settings.version,
        settings.fidelity,
    )


def _reserved_count(settings: Settings) -> int:
    amount = settings.node_allocatable_reservation.get("cpu")
    if amount is None:
        raise StartError(
            PHASE, "[cpumanager] unable to determine reserved CPU resources for static policy"
        )
    if amount.is_zero:
        raise StartError(
            PHASE,
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu"
            " to be greater than zero",
        )
    return -(-amount.milli() // 1000)


def _options(settings: Settings) -> frozenset[str]:
    given = settings.cpu_options
    on = frozenset(name for name in sorted(given) if _is_on(name, given, settings))
    for first, second in _FORBIDDEN_PAIRS:
        if first in on and second in on:
            raise ValueError(
                f"static policy options {first} and {second} can not be used at the same time"
            )
    return on


def _is_on(name: str, given: Mapping[str, str], settings: Settings) -> bool:
    if name not in OPTIONS:
        raise ValueError(f"unknown CPU Manager Policy option: {gotext.quoted(name)}")
    for level, names, gate in (
        ("Alpha", _ALPHA, "CPUManagerPolicyAlphaOptions"),
        ("Beta", _BETA, "CPUManagerPolicyBetaOptions"),
    ):
        if name in names and not settings.gate(gate):
            raise ValueError(
                f"CPU Manager Policy {level}-level Options not enabled, "
                f"but option {gotext.quoted(name)} provided"
            )
    try:
        return gotext.parse_bool(given[name])
    except ValueError as error:
        raise ValueError(f"bad value for option {gotext.quoted(name)}: {error}") from error


def _check_socket_alignment(
    options: frozenset[str], settings: Settings, topology: CpuTopology
) -> None:
    if ALIGN_SOCKET not in options:
        return
    if settings.topology_policy == "single-numa-node":
        raise ValueError(
            "Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket policy option"
        )
    if topology.socket_count > topology.node_count:
        raise ValueError(
            "Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )


def _reserved(
    settings: Settings, topology: CpuTopology, options: frozenset[str], count: int
) -> int:
    reserved = parse_list(settings.reserved_cpus)
    if not reserved:
        reserved = _chosen_reserved(settings, topology, options, count)
    if reserved.bit_count() != count:
        raise ValueError(
            "[cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {format_list(reserved)} did not equal {count})"
        )
    unknown = reserved & ~topology.all
    if unknown:
        raise ValueError(
            "[cpumanager] unable to build the reserved physical CPUs from the reserved set: "
            f"unknown CPU ID: {next(bits(unknown))}"
        )
    return reserved


def _chosen_reserved(
    settings: Settings, topology: CpuTopology, options: frozenset[str], count: int
) -> int:
    """Reserved CPUs picked as a container's would be, out of all; errors leave none."""
    policy = CpuPolicy(topology, options, 0, 0, settings.version, settings.fidelity)
    try:
        return policy.choose(topology.all, count)
    except (NotEnoughCpusError, EndlessLoopError):
        return 0
