"""What the agent's JSON becomes in tables: who sits where, one record per row.

The same records are printed by -o json and -o yaml.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from numalign.cli.client.choose.targets import owner_text
from numalign.cli.client.formats.tables import Column, Record
from numalign.core.values.sets import bits, format_list, mask_of, parse_list
from numalign.core.values.sizes import human

ALIGNED: Final = {None: "-", True: "yes", False: "no"}
AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def age_text(start: str | None, now: float) -> str:
    """How long ago a time of Kubernetes was, such as 5m."""
    if not start:
        return "-"
    seconds = max(0, int(now - datetime.fromisoformat(start).timestamp()))
    for unit, letter in AGES:
        if seconds >= unit:
            return f"{seconds // unit}{letter}"
    return "0s"


# Pods.


def pod_records(pods: Iterable[Record], now: float) -> list[dict[str, Any]]:
    """One record for each pod."""
    return [_pod_record(pod, now) for pod in pods]


def _pod_record(pod: Record, now: float) -> dict[str, Any]:
    status, placed = pod["status"], list(pod["numalign"]["containers"].values())
    counting = _counting(pod)
    own = [c for c in placed if c["exclusive"]]
    devices: dict[str, list[str]] = {}
    for container in placed:
        for resource, ids in container["devices"].items():
            devices.setdefault(resource, []).extend(ids)
    blocks = [block for container in placed for block in container["memory"]]
    return {
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "ready": sum(1 for c in counting if c["ready"]),
        "containers": len(pod["spec"]["containers"]) + len(_sidecars(pod)),
        "status": pod_status(pod),
        "restarts": sum(c["restartCount"] for c in _restarting(pod, counting)),
        "age": age_text(pod["metadata"].get("creationTimestamp"), now),
        "cpus": _joined(c["cpus"] for c in own),
        "shared": any(c["cpus"] and not c["exclusive"] for c in placed),
        "nodes": format_list(mask_of(_pod_nodes(placed))),
        "memoryBytes": sum(b["sizeBytes"] for b in blocks if b["type"] == "memory"),
        "devices": devices,
        "aligned": _all_aligned(placed),
        "distance": max((d for c in placed if (d := c["distance"]) is not None), default=None),
        "qosClass": status["qosClass"],
        "owner": owner_text(pod),
        "source": pod["numalign"]["source"],
        "message": pod["numalign"].get("why") or status.get("message", ""),
    }


def _all_aligned(placed: Iterable[Record]) -> bool | None:
    """Whether every container that has something of its own has it on one node; None: none has."""
    found = [c["aligned"] for c in placed if c["aligned"] is not None]
    return all(found) if found else None


def _sidecars(pod: Record) -> set[str]:
    """The init containers that run beside the others, by name."""
    inits = pod["spec"].get("initContainers") or ()
    return {c["name"] for c in inits if c.get("restartPolicy") == "Always"}


def _counting(pod: Record) -> list[Record]:
    """The statuses of the containers that READY counts: of the pod, and its sidecars."""
    status, beside = pod["status"], _sidecars(pod)
    inits = [c for c in status.get("initContainerStatuses", []) if c["name"] in beside]
    return [*inits, *status.get("containerStatuses", [])]


def _restarting(pod: Record, counting: list[Record]) -> list[Record]:
    """The statuses whose restarts count: those of init containers only while they are at it."""
    inits = pod["status"].get("initContainerStatuses", [])
    beside = _sidecars(pod)
    is_done = all(c["ready"] for c in inits if c["name"] not in beside)
    return counting if is_done else inits


def _joined(lists: Iterable[str]) -> str:
    mask = 0
    for text in lists:
        mask |= parse_list(text)
    return format_list(mask)


def _pod_nodes(placed: Iterable[Record]) -> set[int]:
    """The NUMA nodes of a pod: of its memory, or else of its hint."""
    found: set[int] = set()
    for container in placed:
        nodes = [node for block in container["memory"] for node in block["nodes"]]
        hint = container["hint"]
        found.update(nodes or (hint["nodes"] or () if hint else ()))
    return found


def pod_status(pod: Record) -> str:
    """One word for how a pod fares, as kubectl finds it."""
    status = pod["status"]
    if pod["numalign"]["deleting"]:
        return "Terminating"
    if status.get("reason"):
        return str(status["reason"])
    if status["phase"] == "Succeeded":
        return "Completed"
    if status["phase"] == "Failed":
        return "Error"
    if pod["numalign"]["awaitedDevices"]:
        return "AwaitingDevices"
    for index, container in enumerate(status.get("initContainerStatuses", [])):
        waiting = container["state"].get("waiting")
        if waiting and waiting.get("reason") not in {None, "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        if not container["ready"]:
            return f"Init:{index}/{len(status['initContainerStatuses'])}"
    for container in status.get("containerStatuses", []):
        waiting = container["state"].get("waiting")
        if waiting and waiting.get("reason"):
            return str(waiting["reason"])
    return str(status["phase"])


def _pod_cpus(record: Record) -> str:
    parts = [record["cpus"]] if record["cpus"] else []
    return " + ".join([*parts, "shared"] if record["shared"] else parts) or "-"


PODS: Final = (
    Column("NAMESPACE", lambda r: r["namespace"]),
    Column("NAME", lambda r: r["name"]),
    Column("READY", lambda r: f"{r['ready']}/{r['containers']}"),
    Column("STATUS", lambda r: r["status"]),
    Column("RESTARTS", lambda r: str(r["restarts"]), right=True),
    Column("AGE", lambda r: r["age"]),
    Column("CPUS", _pod_cpus, flexible=True),
    Column("NODES", lambda r: r["nodes"] or "-"),
    Column("QOS", lambda r: r["qosClass"], wide=True),
    Column("MEMORY", lambda r: human(r["memoryBytes"]) if r["memoryBytes"] else "-", wide=True),
    Column("DEVICES", lambda r: _devices_text(r["devices"]) or "-", wide=True, flexible=True),
    Column("ALIGNED", lambda r: ALIGNED[r["aligned"]], wide=True),
    Column(
        "DISTANCE",
        lambda r: "-" if r["distance"] is None else f"{r['distance']:.1f}",
        wide=True,
        right=True,
    ),
    Column("OWNER", lambda r: r["owner"] or "-", wide=True),
    Column("SOURCE", lambda r: r["source"], wide=True),
    Column("UID", lambda r: r["uid"], wide=True),
    Column("MESSAGE", lambda r: r["message"] or "-", wide=True, flexible=True),
)


def _devices_text(devices: Mapping[str, Sequence[str]]) -> str:
    return " ".join(f"{resource}={','.join(ids)}" for resource, ids in devices.items())


# CPUs.


def cpu_records(node: Record) -> list[dict[str, Any]]:
    """Per NUMA node the reserved CPUs, those of containers, and the shared pool; each CPU once."""
    found = []
    for numa in node["nodes"]:
        reserved = parse_list(numa["cpus"]["reserved"])
        pool = parse_list(numa["cpus"]["shared"]) & ~reserved
        # Unless the reservation is strict, the pool's containers may run on reserved CPUs, too.
        found += _pool_record(numa, "reserved", reserved)
        found += _exclusive_records(numa)
        found += _pool_record(numa, "shared", pool)
    return found


def _exclusive_records(numa: Record) -> list[dict[str, Any]]:
    """One record for all CPUs that the same containers have.

    A CPU can have several: what an init container had goes to those after it, and the containers
    of a pod with resources of its own share what they did not ask for.
    """
    owners: dict[int, list[str]] = {cpu: [] for cpu in bits(parse_list(numa["cpus"]["exclusive"]))}
    for occupant in numa["occupants"]:
        if occupant["exclusive"]:
            for cpu in bits(parse_list(occupant["cpus"])):
                owners.setdefault(cpu, []).append(_who(occupant))
    groups: dict[tuple[str, ...], int] = {}
    for cpu, who in sorted(owners.items()):
        groups[tuple(who)] = groups.get(tuple(who), 0) | 1 << cpu
    return [
        _cpu_record(numa, "exclusive", format_list(cpus), list(who)) for who, cpus in groups.items()
    ]


def _pool_record(numa: Record, use: str, cpus: int) -> list[dict[str, Any]]:
    sharing = [o for o in numa["occupants"] if not o["exclusive"] and parse_list(o["cpus"]) & cpus]
    who = [_who(occupant) for occupant in sharing]
    return [_cpu_record(numa, use, format_list(cpus), who)] if cpus else []


def _cpu_record(numa: Record, use: str, cpus: str, who: list[str]) -> dict[str, Any]:
    count = parse_list(cpus).bit_count()
    return {"node": numa["id"], "use": use, "count": count, "cpus": cpus, "containers": who}


def _who(occupant: Record) -> str:
    return f"{occupant['namespace']}/{occupant['pod']}/{occupant['container']}"


CPUS: Final = (
    Column("NODE", lambda r: str(r["node"]), right=True),
    Column("USE", lambda r: r["use"]),
    Column("COUNT", lambda r: str(r["count"]), right=True),
    Column("CPUS", lambda r: r["cpus"], flexible=True),
    Column("WHO", lambda r: " ".join(r["containers"]) or "-", flexible=True),
)


# Memory.


def memory_records(node: Record) -> list[dict[str, Any]]:
    """One record for each kind of memory of each NUMA node that has some."""
    found = []
    for numa in node["nodes"]:
        for table in numa["memory"]:
            who = [
                {"container": _who(o), "sizeBytes": b["sizeBytes"], "nodes": b["nodes"]}
                for o in numa["occupants"]
                for b in o["memory"]
                if b["type"] == table["type"]
            ]
            if table["totalBytes"]:
                group = numa["memoryGroup"]
                found.append({"node": numa["id"], **table, "group": group, "containers": who})
    return found


def _memory_who(record: Record) -> str:
    parts = []
    for user in record["containers"]:
        spread = f" over {len(user['nodes'])} nodes" if len(user["nodes"]) > 1 else ""
        parts.append(f"{user['container']} {human(user['sizeBytes'])}{spread}")
    return ", ".join(parts) or "-"


MEMORY: Final = (
    Column("NODE", lambda r: str(r["node"]), right=True),
    Column("TYPE", lambda r: r["type"]),
    Column("TOTAL", lambda r: human(r["totalBytes"]), right=True),
    Column("RESERVED", lambda r: human(r["systemReservedBytes"]), right=True),
    Column("USED", lambda r: human(r["usedBytes"]), right=True),
    Column("FREE", lambda r: human(r["freeBytes"]), right=True),
    Column("GROUP", lambda r: format_list(mask_of(r["group"])), wide=True),
    Column("WHO", _memory_who, flexible=True),
)


# Devices.


def device_records(node: Record) -> list[dict[str, Any]]:
    """One record for each device."""
    return [dict(device) for device in node["devices"]]


DEVICES: Final = (
    Column("RESOURCE", lambda r: r["resource"]),
    Column("DEVICE", lambda r: r["id"]),
    Column("NODES", lambda r: format_list(mask_of(r["nodes"])) or "-"),
    Column("HEALTH", lambda r: "healthy" if r["healthy"] else "unhealthy"),
    Column("WHO", lambda r: _who(r["holder"]) if r["holder"] else "-", flexible=True),
    Column("UID", lambda r: r["holder"]["uid"] if r["holder"] else "-", wide=True),
)
