"""Replays the vectors of single functions: sets, merges, hints, choosing CPUs, requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from numalign.conformance import reading
from numalign.conformance.reading import Json
from numalign.conformance.scenarios import Replay, shown_hint
from numalign.core.kubelet.admission.admission import PROVIDERS
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.cpu import static as cpu_static
from numalign.core.kubelet.cpu.distribute import Distribution, EndlessLoopError, take_distributed
from numalign.core.kubelet.cpu.pack import NotEnoughCpusError, Strategy, take_packed
from numalign.core.kubelet.cpu.policy import ALIGN_SOCKET, CpuPolicy
from numalign.core.kubelet.cpu.topology import CpuPlace, CpuTopology
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.topology.hints import (
    Affinity,
    Hint,
    HintSet,
    ProviderHints,
    ResourceHints,
)
from numalign.core.kubelet.topology.merge import (
    Merger,
    distance_sum,
    merged_lists,
    single_node_lists,
)
from numalign.core.kubelet.topology.node_search import Distances
from numalign.core.pod import (
    NotAnIntegerError,
    exclusive_cpus,
    pod_exclusive_cpus,
    pod_limits,
    pod_memory_requests,
    pod_requests,
    qos_class,
)
from numalign.core.settings import Fidelity, Settings, Version
from numalign.core.values.sets import bits, format_list, mask_of, parse_list


def compared(ours: object, theirs: object, what: str) -> list[str]:
    return [] if ours == theirs else [f"{what}: {ours}, expected {theirs}"]


# Sets of nodes and merging.


def bitmask_order(line: Json) -> list[str]:
    """The order in which all sets of nodes are enumerated."""
    nodes = line["numa_nodes"]
    ours = [list(c) for size in range(1, len(nodes) + 1) for c in combinations(nodes, size)]
    return compared(ours, line["masks_in_order"], "order")


def numa_distance(line: Json) -> list[str]:
    """Which of two sets is narrower, and which is closer."""
    table = _distances(line["distances"])
    a, b = mask_of(line["a"]), mask_of(line["b"])
    closest = min((a, b), key=Merger(a | b, table).order)
    narrowest = min((a, b), key=Merger(a | b).order)
    return [
        *compared(list(bits(closest)), line["closest"], "closest"),
        *compared(list(bits(narrowest)), line["narrowest"], "narrowest"),
        *compared(_average(a, table), line["average_a"], "average of a"),
        *compared(_average(b, table), line["average_b"], "average of b"),
    ]


def _average(mask: int, table: Distances) -> float:
    return distance_sum(mask, table) / mask.bit_count() ** 2


def _distances(rows: Json) -> Distances:
    table: list[Sequence[int]] = [()] * (max(int(node) for node in rows) + 1)
    for node, row in rows.items():
        table[int(node)] = row
    return table


def hint_merge(line: Json) -> list[str]:
    """One merge of explicit hints under one policy."""
    lists = [hints for provider in line["providers"] for hints in _lists(provider, _named_hint)]
    table = _distances(line["distances"]) if line["prefer_closest"] else None
    hint, admit = _decided(line["policy"], lists, mask_of(line["numa_nodes"]), table)
    expected = line["expected"]
    return [
        *compared(shown_hint(hint), expected["hint"], "hint"),
        *compared(admit, expected["admit"], "admitted"),
    ]


def topology_merge(line: Json) -> list[str]:
    """One merge of explicit hints under three policies."""
    lists = [hints for provider in line["providers"] for hints in _lists(provider, _listed_hint)]
    table = line["distances"] if line["preferClosest"] else None
    found: list[str] = []
    for policy, expected in line["result"].items():
        hint, admit = _decided(policy, lists, 2 ** line["numaNodes"] - 1, table)
        affinity = None if hint.nodes is None else list(bits(hint.nodes))
        ours = {"affinity": affinity, "preferred": hint.preferred, "admit": admit}
        found += compared(ours, expected, policy)
    return found


def _named_hint(data: Json) -> Hint:
    nodes = data["numa"]
    return Hint(None if nodes is None else mask_of(nodes), data["preferred"])


def _listed_hint(data: Sequence[Any]) -> Hint:
    nodes, preferred = data
    return Hint(None if nodes is None else mask_of(nodes), preferred)


def _lists(provider: Json | None, make: Callable[[Any], Hint]) -> list[list[Hint]]:
    if not provider:
        return [[Hint(None, preferred=True)]]
    return [_list(hints, make) for hints in provider.values()]


def _list(hints: Sequence[Any] | None, make: Callable[[Any], Hint]) -> list[Hint]:
    if hints is None:
        return [Hint(None, preferred=True)]
    return [make(hint) for hint in hints] or [Hint(None, preferred=False)]


def _decided(
    policy: str, lists: list[list[Hint]], all_nodes: int, table: Distances | None
) -> tuple[Hint, bool]:
    if policy == "none":
        return Hint(None, preferred=False), True
    if policy == "single-numa-node":
        hint = single_node_lists(lists, all_nodes)
        return hint, hint.preferred
    hint = merged_lists(lists, all_nodes, table)
    return hint, policy == "best-effort" or hint.preferred


# Choosing CPUs.


def take_cpus(line: Json, version: Version) -> list[str]:
    topology = reading.topology(line["machine"])
    found: list[str] = []
    for case in line["cases"]:
        ours = _taken(
            topology,
            parse_list(case["available"]),
            case["n"],
            case["algorithm"],
            Distribution(
                case.get("cpu_group_size", 1),
                case.get("align_by_socket", False),
                version is Version.V1_37,
            ),
        )
        theirs = {key: case[key] for key in ("cpus", "error", "hang") if key in case}
        found += compared(ours, theirs, f"{case['algorithm']} n={case['n']} of {case['available']}")
    return found


_MODES = {
    "packed": "packed",
    "spread": "packed-spread-cores",
    "uncore": "packed-uncorecache",
    "dist1": "numa-distributed",
    "distcore": "numa-distributed",
}


def cpu_take(line: Json, topologies: Json) -> list[str]:
    topology = named_topology(topologies[line["topo"]])
    group = topology.cpus_per_core if line["mode"] == "distcore" else 1
    ours = _taken(
        topology,
        parse_list(line["avail"]),
        line["n"],
        _MODES[line["mode"]],
        Distribution(group),
    )
    theirs = {key: line[key] for key in ("error", "hang") if key in line}
    if "result" in line:
        theirs["cpus"] = line["result"]
    return compared(ours, theirs, f"{line['mode']} n={line['n']} of {line['avail']}")


_STRATEGIES = {
    "packed": Strategy(),
    "packed-spread-cores": Strategy(spread_cores=True),
    "packed-uncorecache": Strategy(align_uncore=True),
}


def _taken(
    topology: CpuTopology, available: int, count: int, algorithm: str, how: Distribution
) -> dict[str, object]:
    try:
        if algorithm == "numa-distributed":
            cpus = take_distributed(topology, available, count, how)
        else:
            cpus = take_packed(topology, available, count, _STRATEGIES[algorithm])
    except NotEnoughCpusError as error:
        return {"error": str(error)}
    except EndlessLoopError:
        return {"hang": True}
    return {"cpus": format_list(cpus)}


def named_topology(data: Json) -> CpuTopology:
    places = {int(cpu): CpuPlace(*place) for cpu, place in data["cpus"].items()}
    return CpuTopology(places, data["numCPUs"], data["numCores"], data["numSockets"])


def cpu_hints(line: Json, topologies: Json) -> list[str]:
    topology = named_topology(topologies[line["topo"]])
    options = frozenset({ALIGN_SOCKET}) if line["alignBySocket"] else frozenset[str]()
    policy = CpuPolicy(topology, options, 0, 0, Version.V1_36, Fidelity.KUBELET)
    available, reusable = parse_list(line["avail"]), parse_list(line["reusable"])
    answer = cpu_static.hint_set(policy, available, reusable, line["n"])
    ours = [
        f"[{' '.join(str(n) for n in bits(h.nodes or 0))}]:{str(h.preferred).lower()}"
        for h in _all_hints(answer)
    ]
    return compared(ours, line["hints"], "hints")


def _all_hints(answer: ResourceHints) -> list[Hint]:
    return list(answer.listed()) if isinstance(answer, HintSet) else []


# Devices and requests.


def device_hints(line: Json) -> list[str]:
    resource = devices.device_resource(
        devices.Device(name, None if nodes is None else tuple(nodes))
        for name, nodes in line["devices"].items()
    )
    available, reusable = resource.mask(line["available"]), resource.mask(line["reusable"])
    answer = devices.hint_set(resource, available, reusable, line["n"], 2 ** line["numaNodes"] - 1)
    hints = [[list(bits(h.nodes or 0)), h.preferred] for h in _all_hints(answer)]
    affinity = None if line["affinity"] is None else mask_of(line["affinity"])
    parts = devices.split(resource, available, affinity)
    return [
        *compared(resource.has_alignment, line["alignment"], "alignment"),
        *compared(hints, line["hints"], "hints"),
        *compared([list(resource.named(p)) for p in parts], line["split"], "split"),
    ]


def pod_resources(line: Json, version: Version) -> list[str]:
    """QoS class, effective requests and what each manager counts."""
    gates = {"PodLevelResourceManagers": line["pod_level_resource_managers"]}
    settings = Settings(version=version, gates=gates)
    pod = reading.pod(line["pod"])
    ours: dict[str, object] = {
        "qos": qos_class(pod, settings),
        "pod_requests": {k: str(v) for k, v in pod_requests(pod, settings).items()},
        "pod_limits": {k: str(v) for k, v in pod_limits(pod, settings).items()},
        "cpu_manager_pod_exclusive_cpus": pod_exclusive_cpus(pod, settings),
        "cpu_manager_container_exclusive_cpus": {
            c.name: exclusive_cpus(pod, c, settings) for c in pod.in_order
        },
        "is_pod_level_resources_set": pod.has_pod_level_resources,
    }
    try:
        ours["memory_manager_pod_requests"] = pod_memory_requests(pod, settings)
    except NotAnIntegerError as error:
        ours["memory_manager_error"] = str(error)
    inputs = {"pod", "pod_level_resource_managers"}
    found: list[str] = []
    for key in sorted(ours.keys() | (line.keys() - inputs)):
        found += compared(ours.get(key), line.get(key), key)
    return found


def provider_hints(line: Json, version: Version) -> list[str]:
    """What each provider answers for the pod of the last step, which is not admitted."""
    scenario = line["scenario"]
    replay = Replay(scenario, version)
    for step in scenario["steps"][:-1]:
        replay.step(step)
    pod = reading.pod(scenario["steps"][-1]["admit"])
    draft = Draft(replay.host, replay.state, pod)
    found = _answer_differences(draft.answers(None), line["expected"]["pod"], "pod")
    for container in pod.in_order:
        wanted = line["expected"]["containers"][container.name]
        found += _answer_differences(draft.answers(container), wanted, container.name)
    return found


def _answer_differences(answers: Sequence[ProviderHints], wanted: Json, what: str) -> list[str]:
    found: list[str] = []
    for provider, answer in zip(PROVIDERS, answers, strict=True):
        ours = None if answer is None else {k: _shown_answer(a) for k, a in answer.items()}
        found += compared(ours, wanted[provider], f"{what}: {provider}")
    return found


def _shown_answer(answer: ResourceHints) -> list[Json] | None:
    if answer is Affinity.ANYWHERE:
        return None
    return [shown_hint(hint) for hint in _all_hints(answer)]
