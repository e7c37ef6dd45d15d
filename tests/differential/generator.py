"""Random scenarios in the format of the vectors; the same seed always gives the same scenario."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.differential import machines, refusals
from tests.differential.machines import GI, MI

Json = dict[str, Any]

RESOURCES: Final = ("example.com/gpu", "example.com/nic", "vendor.io/fpga")
ALPHA: Final = ("distribute-cpus-across-cores", "align-by-socket")
NODES_MAX: Final = 8
INT64_MAX: Final = (1 << 63) - 1
# What a hunt can concentrate on.
FOCUSES: Final = (
    "general",
    "podlevel",
    "distribute",
    "uncore",
    "memory",
    "devices",
    "closest",
    "uneven",
    "restarts",
    "bad",
    "resizes",
    "overreserved",
)

# Only 1.37 and later can be asked for these.
RESIZES: Final = "resizes"
RESIZE_GATES: Final = (
    "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
)
# How often the managers know pod-level resources.
_GATE_ON: Final = {"podlevel": 0.9, "restarts": 0.3, "overreserved": 0.15}

# More is reserved on a NUMA node than it has: the kubelet's unsigned amounts wrap around.
OVERRESERVED: Final = "overreserved"
_BY_MEMORY: Final = ("memory", OVERRESERVED)  # where memory is what it is about


@dataclass(frozen=True)
class World:
    """What the pods of a scenario can be made for."""

    cpus: int
    node_cpus: int
    node_memory: int
    nodes: int
    pages: dict[str, int]
    devices: dict[str, list[Json]]
    focus: str
    pod_level: float


def scenario(seed: int, focus: str = "general") -> Json:
    """The scenario of a seed."""
    rng = Random(f"{focus}-{seed}")
    machine = _machine(rng, focus)
    nodes = machine["numa_nodes"]
    kubelet = _kubelet(rng, machine, focus)
    if focus == "bad":
        refusals.mutate(rng, kubelet, machine)
    devices = _devices(rng, [node["id"] for node in nodes], focus)
    gate = kubelet.get("feature_gates", {}).get("PodLevelResourceManagers", False)
    world = World(
        cpus=sum(len(node["cpus"]) for node in nodes),
        node_cpus=max(len(node["cpus"]) for node in nodes),
        node_memory=max(node["memory_bytes"] for node in nodes),
        nodes=len(nodes),
        pages=dict(max((n.get("hugepages", {}) for n in nodes), key=lambda p: sum(p.values()))),
        devices=devices,
        focus=focus,
        pod_level=0.75 if focus == "podlevel" else 0.4 if gate else 0.03,
    )
    found: Json = {"id": f"{focus}-{seed}", "machine": machine, "kubelet": kubelet}
    if devices:
        found["devices"] = devices
        preferring = [name for name in devices if rng.random() < 0.5]
        if focus == "devices":
            preferring = [name for name in devices if rng.random() < 0.8]
        if preferring:
            found["devices_preferred_allocation"] = preferring
    found["steps"] = _steps(rng, world)
    return found


def _machine(rng: Random, focus: str) -> Json:
    wanted = {
        "distribute": (
            "s2n4-snc2",
            "s4n4",
            "s2n8-epyc-nps4",
            "s2n2-ht",
            "split-l3",
            "odd",
            "s2n2-nosmt",
            "noncontiguous-ids",
        ),
        "uncore": ("split-l3", "s2n8-epyc-nps4", "odd"),
        "closest": ("s2n4-snc2", "s4n4", "s2n8-epyc-nps4", "cpuless-mem-node", "odd"),
        "uneven": ("uneven",),
        OVERRESERVED: [shape for shape in machines.SHAPES if shape != "s1n1"],
    }.get(focus)
    while True:
        found = machines.machine(rng)
        if wanted is None or found["shape"] in wanted:
            return found


def _kubelet(rng: Random, machine: Json, focus: str) -> Json:
    nodes = machine["numa_nodes"]
    found: Json = {
        "topology_manager_policy": rng.choices(
            ("none", "best-effort", "restricted", "single-numa-node"), (13, 27, 32, 28)
        )[0],
        "topology_manager_scope": rng.choice(("container", "pod")),
        "cpu_manager_policy": "static" if focus != "general" or rng.random() < 0.93 else "none",
        "memory_manager_policy": "Static" if focus in _BY_MEMORY or rng.random() < 0.62 else "None",
    }
    options: dict[str, str] = {}
    if focus == "closest" or rng.random() < 0.3:
        closest = focus == "closest" or rng.random() < 0.75
        options["prefer-closest-numa-nodes"] = "true" if closest else "false"
    if rng.random() < 0.06:
        options["max-allowable-numa-nodes"] = rng.choice(("8", "9", "12", "16"))
    if options:
        found["topology_manager_policy_options"] = options
    gates: dict[str, bool] = {}
    if found["cpu_manager_policy"] == "static":
        cpu_options = _cpu_options(rng, machine, found["topology_manager_policy"], focus)
        if cpu_options:
            found["cpu_manager_policy_options"] = cpu_options
        if any(name in cpu_options for name in ALPHA):
            gates["CPUManagerPolicyAlphaOptions"] = True
    if rng.random() < _GATE_ON.get(focus, 0.04):
        gates["PodLevelResourceManagers"] = True
    if focus == RESIZES:
        gates |= {name: True for name in RESIZE_GATES if rng.random() < 0.4}
    if gates:
        found["feature_gates"] = gates
    _reserve_cpus(rng, found, nodes)
    if found["memory_manager_policy"] == "Static":
        reserve = _over_reserved if focus == OVERRESERVED else _reserved_memory
        found["reserved_memory"] = reserve(rng, nodes)
    return found


def _cpu_options(rng: Random, machine: Json, policy: str, focus: str) -> dict[str, str]:
    """A legal combination of options."""
    names: set[str] = set()
    if focus == "distribute":
        names.add("distribute-cpus-across-numa")
        names |= {name for name in ("full-pcpus-only", "align-by-socket") if rng.random() < 0.5}
    elif focus == "uncore":
        names.add("prefer-align-cpus-by-uncorecache")
        names |= {name for name in ("full-pcpus-only", "align-by-socket") if rng.random() < 0.3}
    elif rng.random() < 0.55:
        names.add(
            rng.choice(
                (
                    "full-pcpus-only",
                    "distribute-cpus-across-numa",
                    "distribute-cpus-across-cores",
                    "prefer-align-cpus-by-uncorecache",
                    "strict-cpu-reservation",
                    "align-by-socket",
                )
            )
        )
        if "distribute-cpus-across-cores" not in names and rng.random() < 0.4:
            names.add("full-pcpus-only")
        if rng.random() < 0.25:
            names.add("align-by-socket")
    if rng.random() < 0.25:
        names.add("strict-cpu-reservation")
    nodes = machine["numa_nodes"]
    sockets = {cpu["socket"] for node in nodes for cpu in node["cpus"]}
    if policy == "single-numa-node" or len(sockets) > len(nodes):
        names.discard("align-by-socket")
    return {name: "false" if rng.random() < 0.04 else "true" for name in sorted(names)}


def _reserve_cpus(rng: Random, found: Json, nodes: list[Json]) -> None:
    ids = sorted(cpu["id"] for node in nodes for cpu in node["cpus"])
    if rng.random() < 0.45:
        kept = (
            [ids[0]]
            if rng.random() < 0.5
            else rng.sample(ids, max(1, min(rng.choice((1, 1, 2, 3, 4)), len(ids) - 1)))
        )
        found["reserved_cpus"] = ",".join(map(str, sorted(kept)))
    elif found["cpu_manager_policy"] == "static" or rng.random() < 0.3:
        choices = [
            q
            for q, n in (("1", 1), ("500m", 1), ("2", 2), ("3", 3), ("1500m", 2), ("4", 4))
            if n < len(ids)
        ]
        found["reserved_cpu_quantity"] = rng.choice(choices or ["1"])


def _reserved_memory(rng: Random, nodes: list[Json]) -> list[Json]:
    found: list[Json] = []
    for node in nodes:
        free = node["memory_bytes"] - _page_bytes(node.get("hugepages", {}))
        amount = rng.choice((100 * MI, 256 * MI, 333 * MI, 512 * MI, GI, 1100 * MI))
        if free > amount and rng.random() < 0.7:
            found.append({"numa": node["id"], "type": "memory", "bytes": amount})
        for size, count in node.get("hugepages", {}).items():
            if count and rng.random() < 0.07:
                pages = rng.randint(1, count)
                page = 2 * MI if size == "2Mi" else GI
                found.append(
                    {"numa": node["id"], "type": f"hugepages-{size}", "bytes": pages * page}
                )
    if not any(item["type"] == "memory" for item in found):
        node = max(nodes, key=lambda n: n["memory_bytes"])
        found.insert(0, {"numa": node["id"], "type": "memory", "bytes": 512 * MI})
    return found


def _over_reserved(rng: Random, nodes: list[Json]) -> list[Json]:
    """Reservations of which some are larger than what the node has."""
    found: list[Json] = []
    share = rng.choice((0.2, 0.5, 0.5, 1))
    for node in nodes:
        pages = node.get("hugepages", {})
        own = {"memory": max(0, node["memory_bytes"] - _page_bytes(pages))}
        own |= {f"hugepages-{size}": _page_bytes({size: count}) for size, count in pages.items()}
        for name, amount in own.items():
            if rng.random() < share:
                found.append({"numa": node["id"], "type": name, "bytes": amount + _excess(rng)})
            elif name == "memory" and amount > GI:
                found.append({"numa": node["id"], "type": name, "bytes": 256 * MI})
    if not any(item["type"] == "memory" for item in found):
        amount = nodes[0]["memory_bytes"] + _excess(rng)
        found.insert(0, {"numa": nodes[0]["id"], "type": "memory", "bytes": amount})
    return found


def _excess(rng: Random) -> int:
    """How much more is reserved than there is: a little, a node's worth, or absurdly much."""
    if rng.random() < 0.05:
        return rng.choice((1 << 50, 1 << 60))
    return rng.choice((0, 1, MI, 64 * MI, 512 * MI, GI, 2 * GI, 4 * GI, 7 * GI, 8 * GI, 20 * GI))


def _page_bytes(pages: dict[str, int]) -> int:
    return sum(count * (2 * MI if size == "2Mi" else GI) for size, count in pages.items())


def _devices(rng: Random, ids: list[int], focus: str) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    if focus != "devices" and rng.random() < 0.3:
        return found
    for name in rng.sample(RESOURCES, rng.choice((1, 2, 3))):
        short = name.split("/")[1]
        count = rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 16))
        style = rng.random()
        items: list[Json] = []
        for i in range(count):
            if style < 0.15:
                numa: list[int] = []
            elif style < (0.4 if focus == "devices" else 0.25) and len(ids) > 1:
                numa = sorted(rng.sample(ids, min(rng.choice((0, 1, 2, 2, 3)), len(ids))))
            elif style < 0.6:
                numa = [ids[i % len(ids)]]
            else:
                numa = [rng.choice(ids)]
            item: Json = {"id": f"{short}-{i}", "numa": numa}
            if rng.random() < 0.05:
                item["healthy"] = False
            items.append(item)
        found[name] = items
    return found


def _steps(rng: Random, world: World) -> list[Json]:
    steps: list[Json] = []
    alive: list[str] = []
    admitted: dict[str, Json] = {}
    pods = 0
    weights = (50, 14, 16, 13, 7) if world.focus == "restarts" else (66, 17, 7, 4.5, 5.5)
    length = rng.choice((4, 6, 8, 10, 12, 16, 20, 24, 30))
    for _ in range(3 if world.focus == "bad" else length):
        kind = rng.choices(("admit", "remove", "start", "restart", "health"), weights)[0]
        if admitted and world.focus == RESIZES and rng.random() < 0.3:
            steps.append({"resize": _resized(rng, world, rng.choice(list(admitted.values())))})
        elif kind == "admit" or not alive:
            pods += 1
            pod = _pod(rng, world, pods)
            alive.append(pod["uid"])
            admitted[pod["uid"]] = pod
            steps.append({"admit": pod})
        elif kind == "remove":
            uid = rng.choice(alive)
            if rng.random() < 0.97:
                alive.remove(uid)
            steps.append({"remove": uid})
        elif kind == "start":
            steps.append({"start": rng.choice(alive)})
        elif kind == "restart":
            steps.append({"restart": True})
        elif world.devices:
            name = rng.choice(sorted(world.devices))
            device = rng.choice(world.devices[name])["id"]
            change = {"resource": name, "id": device, "healthy": rng.random() < 0.4}
            steps.append({"device_health": change})
    return steps


def _pod(rng: Random, world: World, number: int) -> Json:
    pod: Json = {
        "uid": f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4000-8000-{number:012x}",
        "name": f"pod-{number}",
        "namespace": rng.choice(("default", "kube-system", "team-a")),
    }
    kind = rng.choices(("guaranteed", "burstable", "besteffort", "mixed"), (70, 13, 9, 8))[0]
    inits = rng.choices((0, 1, 2, 3), (70, 14, 8, 8))[0]
    if world.focus in _BY_MEMORY:
        inits = rng.choice((0, 0, 1, 1, 2, 3))
    if world.focus == "devices":
        inits = rng.choice((0, 0, 1, 2))
    if rng.random() < world.pod_level:
        return _pod_level(rng, world, pod, inits)
    if inits:
        pod["init_containers"] = [_init(rng, world, f"i{i}", kind) for i in range(inits)]
    count = rng.choices((1, 2, 3, 4), (62, 22, 11, 5))[0]
    pod["containers"] = [_container(rng, world, f"c{i}", kind) for i in range(count)]
    if world.focus == OVERRESERVED and rng.random() < 0.04:
        _make_enormous(pod)
    return pod


def _make_enormous(pod: Json) -> None:
    """Every container asks for so much that three of them wrap around."""
    for container in (*pod.get("init_containers", ()), *pod["containers"]):
        for amounts in (container.get("requests", {}), container.get("limits", {})):
            if "memory" in amounts:
                amounts["memory"] = str(INT64_MAX)


def _resized(rng: Random, world: World, pod: Json) -> Json:
    """The pod with other amounts of CPU and memory in what keeps running."""
    found: Json = deepcopy(pod)
    sidecars = [c for c in found.get("init_containers", ()) if c.get("restart_policy")]
    for container in [*found["containers"], *sidecars]:
        for name, amount in (("cpu", _cpu(rng, world)), ("memory", _memory(rng, world))):
            if name in container.get("requests", ()) and rng.random() < 0.5:
                if container["requests"][name] == container.get("limits", {}).get(name):
                    container["limits"][name] = amount
                container["requests"][name] = amount
    return found


def _init(rng: Random, world: World, name: str, kind: str) -> Json:
    found = _container(rng, world, name, kind)
    if rng.random() < 0.4:
        found["restart_policy"] = "Always"
    return found


def _container(rng: Random, world: World, name: str, kind: str) -> Json:
    if kind == "mixed":
        kind = rng.choice(("guaranteed", "burstable", "besteffort"))
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if kind == "guaranteed":
        requests = {"cpu": _cpu(rng, world), "memory": _memory(rng, world)}
        for size, count in world.pages.items():
            if rng.random() < 0.35:
                requests[f"hugepages-{size}"] = _pages(rng, size, count)
        limits = dict(requests)
        if rng.random() < 0.1 and requests["cpu"].isdigit():
            limits["cpu"] = f"{requests['cpu']}000m"
    elif kind == "burstable":
        requests["cpu"] = rng.choice(("100m", "250m", "500m", "1", "2", "4"))
        if rng.random() < 0.6:
            requests["memory"] = _memory(rng, world)
            if rng.random() < 0.6:
                limits["memory"] = requests["memory"]
        if rng.random() < 0.5:
            limits["cpu"] = rng.choice((requests["cpu"], "8"))
    for device in sorted(world.devices):
        if rng.random() < (0.45 if world.focus == "devices" else 0.2):
            amount = rng.choices(("1", "2", "3", "4"), (70, 19, 6, 5))[0]
            requests[device] = limits[device] = amount
    found: Json = {"name": name}
    if requests:
        found["requests"] = requests
    if limits:
        found["limits"] = limits
    return found


def _cpu(rng: Random, world: World) -> str:
    roll = rng.random()
    if roll < 0.14:
        return rng.choice(("100m", "250m", "500m", "1500m", "2500m", "3500m"))
    if roll < 0.85:
        count = rng.choice((1, 1, 2, 2, 2, 3, 4, 4, 6, 8))
    elif roll < 0.97:
        count = rng.randint(1, max(1, world.node_cpus * 2))
    else:
        count = rng.randint(1, world.cpus + 1)
    count = min(count, world.cpus + 1)
    return f"{count}000m" if rng.random() < 0.15 else str(count)


def _memory(rng: Random, world: World) -> str:
    roll = rng.random()
    limit = 0.55 if world.focus in _BY_MEMORY else 0.87
    if world.focus == OVERRESERVED:
        if rng.random() < 0.03:
            return rng.choice(("4Ei", "7Ei", str(INT64_MAX), str(INT64_MAX + 1)))
        limit = 0.2
    if roll < limit:
        amount = rng.choice((64, 128, 256, 512, 1024, 2048)) * MI
    elif roll < limit + 0.03:
        return rng.choice(("1000000000", "123456789", "1G", "300M", "500000Ki"))
    else:
        top = max(2, int(world.node_memory / (256 * MI)))
        amount = (
            rng.randint(1, max(2, int(top * rng.choice((0.5, 1, 1, 1.5, world.nodes))))) * 256 * MI
        )
        if rng.random() < 0.1:
            amount += MI
    style = rng.random()
    if style < 0.2:
        return str(amount)
    return f"{amount // GI}Gi" if amount % GI == 0 and style < 0.6 else f"{amount // MI}Mi"


def _pages(rng: Random, size: str, count: int) -> str:
    if rng.random() < 0.01:
        return "0Mi"
    if size == "2Mi":
        return f"{2 * rng.choice((1, 2, 8, max(1, count // 2), max(1, count), count + 1))}Mi"
    return f"{rng.choice((1, 1, 2, max(1, count), 2 * max(1, count)))}Gi"


def _pod_level(rng: Random, world: World, pod: Json, inits: int) -> Json:
    """A pod with an amount of its own, of which its containers take parts."""
    cpus = rng.choice((2, 4, 4, 6, 8, 3))
    memory = rng.choice((512, 1024, 2048, 4096)) * MI
    if inits:
        pod["init_containers"] = [
            _part(rng, world, f"i{i}", cpus, memory, init=True) for i in range(inits)
        ]
    count = rng.choices((1, 2, 3, 4), (45, 28, 17, 10))[0]
    left = cpus
    containers: list[Json] = []
    for i in range(count):
        part = _part(rng, world, f"c{i}", left, memory // count, init=False)
        left -= _whole(part.get("requests", {}).get("cpu", "0"))
        containers.append(part)
    pod["containers"] = containers
    own = {"cpu": str(cpus), "memory": _text(rng, memory)}
    if rng.random() < 0.06:
        own["cpu"] = f"{cpus - 1}500m"
    for size, pages in world.pages.items():
        if rng.random() < 0.12:
            own[f"hugepages-{size}"] = _pages(rng, size, pages)
    pod["requests"] = own
    pod["limits"] = dict(own)
    roll = rng.random()
    if roll < 0.12:
        pod["limits"]["cpu"] = str(cpus + 1)
    elif roll < 0.15:
        del pod["requests"]["memory"]
    elif roll < 0.18:
        pod["requests"] = {"cpu": own["cpu"]}
        pod["limits"] = {"cpu": own["cpu"]}
    return pod


def _part(rng: Random, world: World, name: str, cpus: int, memory: int, *, init: bool) -> Json:
    found: Json = {"name": name}
    requests: dict[str, str] = {}
    roll = rng.random()
    if roll < 0.6 and cpus > 0:
        requests["cpu"] = str(rng.randint(1, cpus))
        requests["memory"] = _text(
            rng, max(MI, int(memory * rng.choice((0.25, 1 / 3, 0.5, 0.75, 1))))
        )
    elif roll < 0.68:
        requests = {"cpu": rng.choice(("500m", "1500m")), "memory": _text(rng, 64 * MI)}
    limits = dict(requests)
    if requests and rng.random() < 0.08:
        del limits["memory"]
    for device in sorted(world.devices):
        if rng.random() < 0.15:
            requests[device] = limits[device] = rng.choice(("1", "1", "2", "3"))
    if requests:
        found["requests"] = requests
    if limits:
        found["limits"] = limits
    if init and rng.random() < 0.4:
        found["restart_policy"] = "Always"
    return found


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _text(rng: Random, amount: int) -> str:
    if amount % MI or rng.random() < 0.15:
        return str(amount)
    return f"{amount // GI}Gi" if amount % GI == 0 and rng.random() < 0.5 else f"{amount // MI}Mi"
