"""Random machines in the format of the vectors."""

from __future__ import annotations

from random import Random
from typing import Any, Final

GI: Final = 1 << 30
MI: Final = 1 << 20
HOLE: Final = 254
FAR: Final = 32
NEAR: Final = 12

Node = dict[str, Any]


def machine(rng: Random) -> dict[str, Any]:
    """A machine of a random shape."""
    shape = rng.choices(list(SHAPES), [weight for weight, _ in SHAPES.values()])[0]
    nodes = SHAPES[shape][1](rng)
    if rng.random() < 0.01:
        for node in nodes:
            del node["distances"]
    return {"shape": shape, "numa_nodes": nodes}


def _rows(nodes: int, per_socket: int) -> list[list[int]]:
    def cost(a: int, b: int) -> int:
        if a == b:
            return 10
        return NEAR if a // per_socket == b // per_socket else FAR

    return [[cost(a, b) for b in range(nodes)] for a in range(nodes)]


def _chain(nodes: int) -> list[list[int]]:
    return [[10 if a == b else 20 + 2 * abs(a - b) for b in range(nodes)] for a in range(nodes)]


def _random_rows(rng: Random, nodes: int) -> list[list[int]]:
    return [
        [10 if a == b else rng.choice((11, 12, 17, 20, 28, 32, 80)) for b in range(nodes)]
        for a in range(nodes)
    ]


def _built(
    rng: Random,
    *,
    sockets: int,
    per_socket: int,
    cores: int,
    threads: int,
    memory: list[int],
    rows: list[list[int]],
    numbering: str = "split",
    uncore_cores: int = 0,
) -> list[Node]:
    """Nodes of equal size; ``uncore_cores`` cores share an L3, 0 means that it is unknown."""
    count = sockets * per_socket
    total = count * cores
    nodes: list[Node] = []
    for index in range(count):
        cpus: list[Node] = []
        for thread in range(threads):
            for core in range(cores):
                serial = index * cores + core
                if numbering == "adjacent":
                    cpu_id = serial * threads + thread
                elif numbering == "interleaved":
                    cpu_id = thread * total + core * count + index
                else:
                    cpu_id = thread * total + serial
                cpu = {
                    "id": cpu_id,
                    "core": (index % per_socket) * cores + core,
                    "socket": index // per_socket,
                }
                if uncore_cores:
                    cpu["uncore"] = serial // uncore_cores
                cpus.append(cpu)
        nodes.append(
            {"id": index, "memory_bytes": memory[index], "distances": rows[index], "cpus": cpus}
        )
    return nodes


def _with_pages(rng: Random, nodes: list[Node], *, same: bool) -> list[Node]:
    sizes = rng.choice((("2Mi",), ("1Gi",), ("1Gi", "2Mi")))
    counts = {"2Mi": (64, 128, 256, 512, 1024), "1Gi": (1, 2, 3)}
    if not same:
        counts = {"2Mi": (0, 128, 512), "1Gi": (0, 1, 2, 4)}
    chosen = {size: rng.choice(counts[size]) for size in sizes}
    for node in nodes:
        node["hugepages"] = (
            dict(chosen) if same else {size: rng.choice(counts[size]) for size in sizes}
        )
    return nodes


def _plain(
    rng: Random, sockets: int, per_socket: int, core_counts: tuple[int, ...], **more: Any
) -> list[Node]:
    count = sockets * per_socket
    amount = rng.choice(more.pop("gib", (8, 16)))
    nodes = _built(
        rng,
        sockets=sockets,
        per_socket=per_socket,
        cores=rng.choice(core_counts),
        threads=more.pop("threads", None) or rng.choice((1, 2)),
        memory=more.pop("memory", None) or [amount * GI] * count,
        rows=more.pop("rows", None) or _rows(count, per_socket),
        **more,
    )
    return nodes


def _two_sockets(rng: Random) -> list[Node]:
    nodes = _plain(rng, 2, 1, (4, 6, 8, 16), threads=2, gib=(8, 16, 64))
    return _with_pages(rng, nodes, same=True) if rng.random() < 0.45 else nodes


def _adjacent(rng: Random) -> list[Node]:
    nodes = _plain(rng, 2, 1, (4, 8), threads=2, numbering="adjacent")
    return _with_pages(rng, nodes, same=True) if rng.random() < 0.45 else nodes


def _one_node(rng: Random) -> list[Node]:
    nodes = _plain(rng, 1, 1, (2, 4, 8), gib=(8, 16, 32))
    return _with_pages(rng, nodes, same=True) if rng.random() < 0.5 else nodes


def _four_sockets(rng: Random) -> list[Node]:
    nodes = _plain(rng, 4, 1, (2, 4, 8), rows=_chain(4))
    return _with_pages(rng, nodes, same=True) if rng.random() < 0.2 else nodes


def _asymmetric_pages(rng: Random) -> list[Node]:
    sockets = rng.choice((2, 4))
    rows = _rows(2, 1) if sockets == 2 else _chain(4)
    return _with_pages(
        rng, _plain(rng, sockets, 1, (4,), threads=2, gib=(12,), rows=rows), same=False
    )


def _asymmetric_memory(rng: Random) -> list[Node]:
    memory = rng.choice(((24, 6), (4, 16), (2, 2.5)))
    return _plain(rng, 2, 1, (4, 8), threads=2, memory=[int(gib * GI) for gib in memory])


def _without_cpus(rng: Random) -> list[Node]:
    """Sockets with CPUs, and nodes with memory only."""
    nodes = _plain(rng, 2, 1, (4, 8), threads=2, gib=(8,))
    added = rng.choice((1, 2))
    rows = _random_rows(rng, 2 + added)
    rows[0][1] = rows[1][0] = FAR
    amount = rng.choice((8, 32)) * GI
    nodes += [{"id": 2 + i, "memory_bytes": amount, "cpus": []} for i in range(added)]
    for node, row in zip(nodes, rows, strict=True):
        node["distances"] = row
    return nodes


def _without_memory(rng: Random) -> list[Node]:
    sockets = rng.choice((2, 4))
    rows = _rows(2, 1) if sockets == 2 else _chain(4)
    memory = [16 * GI * (1 - i % 2) for i in range(sockets)]
    return _plain(rng, sockets, 1, (4,), threads=2, memory=memory, rows=rows)


def _holes(rng: Random) -> list[Node]:
    """Node and CPU ids with holes."""
    nodes = _plain(rng, 2, 1, (4, 6), gib=(8,))
    ids = rng.choice(((0, 2), (0, 8), (1, 3), (2, 5)))
    step, offset = rng.choice(((1, 0), (2, 1), (3, 1)))
    for node, new in zip(nodes, ids, strict=True):
        row = [HOLE] * (max(ids) + 1)
        for other, cost in zip(ids, node["distances"], strict=True):
            row[other] = cost
        node.update(id=new, distances=row)
        for cpu in node["cpus"]:
            cpu["id"] = cpu["id"] * step + offset
    return nodes


def _uneven(rng: Random) -> list[Node]:
    """Some threads are offline."""
    nodes = rng.choice((_two_sockets, _one_node, _sub_numa, _split_caches))(rng)
    for node in nodes:
        for cpu in [c for c in node["cpus"] if c["id"] and rng.random() < 0.15]:
            if len(node["cpus"]) > 1:
                node["cpus"].remove(cpu)
    return nodes


def _sub_numa(rng: Random) -> list[Node]:
    return _plain(rng, 2, 2, (4, 6, 8), threads=2)


def _split_caches(rng: Random) -> list[Node]:
    sockets, per_socket, cores = rng.choice(
        ((1, 1, 8), (1, 1, 16), (2, 1, 8), (2, 1, 16), (1, 4, 4), (1, 4, 8))
    )
    return _plain(
        rng,
        sockets,
        per_socket,
        (cores,),
        gib=(8, 16, 32),
        uncore_cores=rng.choice((2, 4, 8, 1, 3)),
    )


def _nps4(rng: Random) -> list[Node]:
    return _plain(rng, 2, 4, (4, 8), uncore_cores=rng.choice((2, 4, 8)))


def _odd(rng: Random) -> list[Node]:
    """Any mixture: three sockets, odd core counts, random distances and memory."""
    sockets, per_socket = rng.choice(((3, 1), (3, 2), (2, 3), (1, 2), (1, 3), (5, 1), (1, 6)))
    count = sockets * per_socket
    return _plain(
        rng,
        sockets,
        per_socket,
        (1, 2, 3, 5, 7),
        memory=[rng.choice((1, 2, 4, 6, 8)) * GI + rng.choice((0, MI, 4096)) for _ in range(count)],
        rows=_random_rows(rng, count),
        numbering=rng.choice(("split", "adjacent", "interleaved")),
        uncore_cores=rng.choice((0, 0, 1, 2, 3)),
    )


SHAPES: Final[dict[str, tuple[int, Any]]] = {
    "s2n2-ht": (14, _two_sockets),
    "s4n4": (9, _four_sockets),
    "s2n4-snc2": (9, _sub_numa),
    "split-l3": (14, _split_caches),
    "s1n1": (6, _one_node),
    "s2n2-adjacent-ht": (6, _adjacent),
    "s2n2-interleaved": (5, lambda rng: _plain(rng, 2, 1, (4, 8, 10), numbering="interleaved")),
    "s2n2-nosmt": (4, lambda rng: _plain(rng, 2, 1, (4, 8, 12), threads=1)),
    "s2n2-asym-mem": (6, _asymmetric_memory),
    "s2n8-epyc-nps4": (6, _nps4),
    "cpuless-mem-node": (6, _without_cpus),
    "noncontiguous-ids": (6, _holes),
    "memoryless-node": (5, _without_memory),
    "asym-hugepages": (6, _asymmetric_pages),
    "odd": (10, _odd),
    "uneven": (6, _uneven),
}
