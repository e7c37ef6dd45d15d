"""The topology policy of one host: its options, checked as the kubelet checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from numalign.core.errors import StartError
from numalign.core.kubelet.topology.hints import Hint, ResourceHints
from numalign.core.kubelet.topology.merge import Merger
from numalign.core.kubelet.topology.node_search import Distances
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.settings import Settings
from numalign.core.values import gotext

PHASE: Final = "topology_manager"
CLOSEST: Final = "prefer-closest-numa-nodes"
MAX_NODES: Final = "max-allowable-numa-nodes"
NODES_MAX_DEFAULT: Final = 8
NODE_ID_MAX: Final = 63  # the kubelet's node masks have 64 bits

Verdict = tuple[Hint, bool]


def best_effort(merger: Merger, answers: Sequence[ResourceHints], *, explain: bool) -> Verdict:
    """Take the best alignment there is, and admit whatever it is."""
    del explain
    return merger.best(answers), True


def restricted(merger: Merger, answers: Sequence[ResourceHints], *, explain: bool) -> Verdict:
    """Take the best alignment there is, and admit only a preferred one.

    What a refused pod would have got is worked out only for those who ask.
    """
    best = merger.best(answers, only_preferred=not explain)
    return best, best.preferred


def single_numa_node(merger: Merger, answers: Sequence[ResourceHints], *, explain: bool) -> Verdict:
    """Admit only what fits on one node."""
    del explain
    best = merger.single(answers)
    return best, best.preferred


class Policy(Protocol):
    """How a policy decides. ``explain``: the hint of a refusal will be shown."""

    def __call__(
        self, merger: Merger, answers: Sequence[ResourceHints], *, explain: bool
    ) -> Verdict:
        """The merged hint, and whether it admits."""


POLICIES: Final[Mapping[str, Policy]] = {
    "best-effort": best_effort,
    "restricted": restricted,
    "single-numa-node": single_numa_node,
}


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """A topology policy that is ready to decide; never made for ``none``."""

    name: str
    scope: str  # container or pod
    merger: Merger
    decide: Policy


def topology_policy(settings: Settings, info: MachineInfo) -> TopologyPolicy | None:
    """The configured policy, None for ``none``; StartError with the kubelet's words otherwise."""
    name = settings.topology_policy
    if name == "none":
        return None  # scope and options are not even looked at
    options = settings.topology_options
    closest, nodes_max = _options(options)
    if closest and any(node.distances is None for node in info.nodes):
        raise StartError(
            PHASE, "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
        )
    if len(info.nodes) > nodes_max:
        raise StartError(PHASE, f"unsupported on machines with more than {nodes_max} NUMA Nodes")
    if name not in POLICIES:
        raise StartError(PHASE, f"unknown policy: {gotext.quoted(name)}")
    if settings.topology_scope not in {"container", "pod"}:
        raise StartError(PHASE, f"unknown scope: {gotext.quoted(settings.topology_scope)}")
    highest = max(node.id for node in info.nodes)
    if highest > NODE_ID_MAX:
        raise StartError(
            PHASE,
            f"NUMA node {highest} cannot be placed: the kubelet's node sets end at {NODE_ID_MAX}"
            " and it would crash",
        )
    all_nodes = sum(1 << node.id for node in info.nodes)
    distances = _distances(info) if closest and name != "single-numa-node" else None
    return TopologyPolicy(
        name, settings.topology_scope, Merger(all_nodes, distances), POLICIES[name]
    )


def _options(options: Mapping[str, str]) -> tuple[bool, int]:
    closest, nodes_max = False, NODES_MAX_DEFAULT
    for name in sorted(options):
        text = options[name]
        if name == CLOSEST:
            closest = _parsed_bool(text)
        elif name == MAX_NODES:
            nodes_max = _parsed_max(text)
        else:
            raise StartError(
                PHASE, f"unknown Topology Manager Policy option: {gotext.quoted(name)}"
            )
    return closest, nodes_max


def _parsed_bool(text: str) -> bool:
    try:
        return gotext.parse_bool(text)
    except ValueError as error:
        raise StartError(PHASE, f'bad value for option "{CLOSEST}": {error}') from error


def _parsed_max(text: str) -> int:
    try:
        number = gotext.atoi(text)
    except ValueError as error:
        raise StartError(
            PHASE, f'unable to convert policy option to integer "{MAX_NODES}": {error}'
        ) from error
    if number < NODES_MAX_DEFAULT:
        raise StartError(PHASE, f'the minimum value of "{MAX_NODES}" should not be less than 8')
    return number


def _distances(info: MachineInfo) -> Distances:
    """Distances by node id. The kubelet looks them up by position in the kernel's list."""
    size = max(node.id for node in info.nodes) + 1
    table: list[Sequence[int]] = [()] * size
    for node in info.nodes:
        row = node.distances or ()
        if len(row) < size:
            raise StartError(
                PHASE,
                f"the option {CLOSEST} needs NUMA nodes numbered without gaps: node {node.id} "
                f"lists {len(row)} distances for ids up to {size - 1}, and the kubelet would crash",
            )
        table[node.id] = row
    return table
