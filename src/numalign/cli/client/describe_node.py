"""The host as ``describe node`` tells it: what it has, how it is set, and who is here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numalign.cli.client.agent_rows import pod_status
from numalign.cli.client.choose.targets import owner_text
from numalign.core.values.sets import parse_list
from numalign.core.values.sizes import counted, human

Fields = Iterator[tuple[int, str, str]]  # indent, name, value
Record = Mapping[str, Any]


def fields_of(node: Record, pods: Sequence[Record]) -> Fields:
    """All fields, from the whole to its parts."""
    yield from _machine(node["machine"])
    yield from _settings(node)
    yield from _resources(node)
    for numa, largest in zip(node["nodes"], node["largest"], strict=True):
        yield from _numa_node(numa, largest)
    yield from _devices(node["devices"])
    yield from _pods(pods)


def _machine(machine: Record) -> Fields:
    parts = counted(machine["sockets"], "socket"), counted(machine["cores"], "core")
    yield 0, "Name", machine["name"]
    yield 0, "CPUs", f"{machine['cpuCount']} ({machine['cpus']}), {', '.join(parts)}"
    if machine["offline"]:
        yield 0, "Offline CPUs", machine["offline"]
    yield 0, "Memory", human(machine["memoryBytes"])
    yield 0, "NUMA nodes", machine["numaNodes"]
    for note in machine["notes"]:
        yield 0, "Note", note


def _settings(node: Record) -> Fields:
    found = node["settings"]
    yield 0, "Decides as", f"Kubernetes {found['version']}"
    yield 0, "Policies", ""
    scope = f"{found['topologyManagerPolicy']}, scope {found['topologyManagerScope']}"
    yield 1, "Topology", scope + _options(found["topologyManagerPolicyOptions"])
    yield 1, "CPU", found["cpuManagerPolicy"] + _options(found["cpuManagerPolicyOptions"])
    yield 1, "Memory", found["memoryManagerPolicy"]
    yield 0, "Reserved CPUs", node["reserved"]["cpus"] or "none"


def _options(options: Record) -> str:
    return "".join(f", {name}={value}" for name, value in options.items())


def _resources(node: Record) -> Fields:
    """What pods can have in total, and what they asked for."""
    yield 0, "Allocatable", ""
    for name, amount in node["allocatable"].items():
        yield 1, name, f"{amount}, requested {node['requested'].get(name, '0')}"


def _numa_node(numa: Record, largest: Record) -> Fields:
    cpus = numa["cpus"]
    yield 0, f"NUMA node {numa['id']}", ""
    if numa["distances"]:
        yield 1, "Distances", " ".join(map(str, numa["distances"]))
    yield 1, "CPUs", cpus["all"] or "none"
    for title, use in (("Exclusive", "exclusive"), ("Reserved", "reserved"), ("Free", "free")):
        if cpus[use]:
            yield 1, title, f"{cpus[use]} ({parse_list(cpus[use]).bit_count()})"
    for table in numa["memory"]:
        if table["totalBytes"]:
            used, total = human(table["usedBytes"]), human(table["totalBytes"])
            free = human(table["freeBytes"])
            name = "Memory" if table["type"] == "memory" else table["type"]
            yield 1, name, f"{used} of {total} used, {free} free"
    devices = "".join(f", {count} {name}" for name, count in largest["devices"].items() if count)
    memory = human(largest["memory"].get("memory", 0))
    yield 1, "Still fits", f"{counted(largest['cpus'], 'CPU')}, {memory}{devices}"


def _devices(devices: Sequence[Record]) -> Fields:
    if devices:
        yield 0, "Devices", ""
    for device in devices:
        holder = device["holder"]
        who = f"held by {holder['namespace']}/{holder['pod']}" if holder else "free"
        nodes = ",".join(map(str, device["nodes"])) or "any"
        health = "" if device["healthy"] else ", unhealthy"
        text = f"{device['id']} on node {nodes}, {who}{health}"
        yield 1, device["resource"], text


def _pods(pods: Sequence[Record]) -> Fields:
    here = [pod for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
    more = len(pods) - len(here)
    yield (
        0,
        "Pods",
        f"{len(here)}, {more} more have ended or were refused" if more else f"{len(here)}",
    )
    for pod in here:
        metadata = pod["metadata"]
        owner = f", {owner_text(pod)}" if owner_text(pod) else ""
        yield 1, "", f"{metadata['namespace']}/{metadata['name']}: {pod_status(pod)}{owner}"
