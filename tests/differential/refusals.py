"""Settings that the kubelet refuses, or only seems to."""

from __future__ import annotations

from random import Random
from typing import Any, Final

Json = dict[str, Any]

MUTATIONS_MAX: Final = 3
OPTIONS: Final = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "distribute-cpus-across-cores",
    "align-by-socket",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
    "pack-tightly",
    "",
)
BOOLS: Final = (
    "true",
    "true",
    "false",
    "TRUE",
    "T",
    "1",
    "0",
    "f",
    "False",
    "tRUE",
    " true",
    "yes",
    "on",
    "",
    '"',
    "é\n",
)
INTEGERS: Final = (
    "8",
    "16",
    "7",
    "+9",
    "08",
    "-1",
    "0",
    "8.5",
    "many",
    "",
    " 8",
    "0x10",
    "1_0",
    "9223372036854775808",
    "99999999999999999999",
)


def mutate(rng: Random, kubelet: Json, machine: Json) -> None:
    """Changes the settings in a few ways at once."""
    for _ in range(rng.randint(1, MUTATIONS_MAX)):
        rng.choice(_MUTATIONS)(rng, kubelet, machine)


def _topology(rng: Random, kubelet: Json, _machine: Json) -> None:
    kubelet["topology_manager_policy"] = rng.choice(
        ("strict", "", "Restricted", "single-numa", "none")
    )


def _scope(rng: Random, kubelet: Json, _machine: Json) -> None:
    kubelet["topology_manager_scope"] = rng.choice(("node", "", "Pod"))


def _topology_option(rng: Random, kubelet: Json, _machine: Json) -> None:
    options = kubelet.setdefault("topology_manager_policy_options", {})
    name = rng.choice(
        (
            "prefer-closest-numa-nodes",
            "max-allowable-numa-nodes",
            "max-allowable-numa-nodes",
            "prefer-fastest",
        )
    )
    options[name] = rng.choice(INTEGERS if name.startswith("max") else BOOLS)


def _cpu_policy(rng: Random, kubelet: Json, _machine: Json) -> None:
    kubelet["cpu_manager_policy"] = rng.choice(("Static", "", "dynamic", "none"))


def _cpu_option(rng: Random, kubelet: Json, _machine: Json) -> None:
    options = kubelet.setdefault("cpu_manager_policy_options", {})
    for name in rng.sample(OPTIONS, rng.choice((1, 1, 2, 3))):
        options[name] = "true" if rng.random() < 0.6 else rng.choice(BOOLS)


def _gate(rng: Random, kubelet: Json, _machine: Json) -> None:
    gates = kubelet.setdefault("feature_gates", {})
    name = rng.choice(("CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"))
    gates[name] = rng.random() < 0.3


def _reserved_list(rng: Random, kubelet: Json, machine: Json) -> None:
    ids = [cpu["id"] for node in machine["numa_nodes"] for cpu in node["cpus"]]
    some = rng.sample(ids, rng.randint(1, len(ids)))
    if rng.random() < 0.3:
        some.append(rng.choice((9999, max(ids) + 1)))
    kubelet["reserved_cpus"] = ",".join(map(str, sorted(some)))


def _reserved_quantity(rng: Random, kubelet: Json, machine: Json) -> None:
    kubelet.pop("reserved_cpus", None)
    kubelet.pop("reserved_cpu_quantity", None)
    total = sum(len(node["cpus"]) for node in machine["numa_nodes"])
    text = rng.choice(
        ("0", "0m", "1m", "1u", "100n", str(total), str(total + 2), f"{total - 1}500m", "")
    )
    if text:
        kubelet["reserved_cpu_quantity"] = text


def _reservation(rng: Random, kubelet: Json, _machine: Json) -> None:
    found: Json = {}
    if rng.random() < 0.9:
        found["cpu"] = rng.choice(("1", "3", "500m", "0", "2"))
    if rng.random() < 0.8:
        found["memory"] = rng.choice(
            ("512Mi", "513Mi", "1Gi", "0", "600Mi", "536870912", "0.5Gi", "1G", "1.5Gi", "512M")
        )
    for size in ("2Mi", "1Gi"):
        if rng.random() < 0.25:
            found[f"hugepages-{size}"] = rng.choice(("4Mi", "1Gi", "0", "2048Ki"))
    if rng.random() < 0.2:
        found["ephemeral-storage"] = "1Gi"
    kubelet["node_allocatable_reservation"] = found


def _memory_policy(rng: Random, kubelet: Json, _machine: Json) -> None:
    kubelet["memory_manager_policy"] = rng.choice(("static", "", "dynamic", "BestEffort", "None"))


def _memory_entry(rng: Random, kubelet: Json, machine: Json) -> None:
    entries = kubelet.setdefault("reserved_memory", [])
    numa = rng.choice([node["id"] for node in machine["numa_nodes"]] * 3 + [6, 99])
    kind = rng.choice(
        ("memory", "memory", "hugepages-2Mi", "hugepages-1Gi", "cpu", "ephemeral-storage")
    )
    amount = rng.choice((0, 1, 1 << 20, 1 << 29, 1 << 30, 1 << 40))
    if rng.random() < 0.3 and entries:
        entries.pop(rng.randrange(len(entries)))
    else:
        entries.insert(rng.randint(0, len(entries)), {"numa": numa, "type": kind, "bytes": amount})


def _distances(rng: Random, kubelet: Json, machine: Json) -> None:
    options = kubelet.setdefault("topology_manager_policy_options", {})
    options["prefer-closest-numa-nodes"] = rng.choice(("true", "false"))
    for node in machine["numa_nodes"]:
        if rng.random() < 0.7:
            node.pop("distances", None)


_MUTATIONS: Final = (
    _topology,
    _scope,
    _topology_option,
    _topology_option,
    _cpu_policy,
    _cpu_option,
    _cpu_option,
    _cpu_option,
    _gate,
    _reserved_list,
    _reserved_quantity,
    _reservation,
    _reservation,
    _memory_policy,
    _memory_entry,
    _memory_entry,
    _distances,
)
