"""Replays sequences of memory allocations, with the memory manager as the only provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numalign.conformance.reading import Json
from numalign.conformance.units import compared
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.topology.hints import HintSet, ProviderHints
from numalign.core.kubelet.topology.merge import flattened
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.machine.machine import HugePages
from numalign.core.pod import Container, Pod, Qos
from numalign.core.settings import ReservedMemory, Settings
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import bits

_PAGE_BYTES = 2 * 1024 * 1024


def memory_sequence(line: Json) -> list[str]:
    """The differences in hints, blocks and accounts over one sequence."""
    replay = _Sequence(line)
    for number, op in enumerate(line["ops"]):
        found = replay.step(op)
        if found:
            return [f"op {number} ({op['op']} {op['pod']}/{op['container']}): {t}" for t in found]
    return []


def _settings(line: Json) -> Settings:
    amounts = [(n["id"], Quantity.of(n["reserved"])) for n in line["nodes"] if n["reserved"]]
    total = Quantity.of(sum(n["reserved"] for n in line["nodes"]))
    return Settings(
        topology_policy=line["topologyPolicy"],
        memory_policy="Static",
        reserved_memory=tuple(ReservedMemory(node, "memory", amount) for node, amount in amounts),
        node_allocatable_reservation={"memory": total},
    )


def _machine(line: Json) -> MachineInfo:
    # The sequences know nothing of CPUs; one per node makes the machine complete.
    nodes = tuple(
        NodeInfo(
            n["id"],
            n["memory"],
            (HugePages(_PAGE_BYTES, n["hp2Mi"]),),
            None,
            (CoreInfo((n["id"],), 0),),
        )
        for n in line["nodes"]
    )
    return MachineInfo(nodes, 1, sum(n["memory"] for n in line["nodes"]))


class _Sequence:
    def __init__(self, line: Json) -> None:
        self.host = host.build(_settings(line), _machine(line))
        self.state: HostState = host.start(self.host)
        self.pods: dict[str, Pod] = {}

    def step(self, op: Json) -> list[str]:
        if op["op"] == "remove":
            memory = memory_static.removed(self.state.memory, op["pod"], [op["container"]])
            self.state = replace(self.state, memory=memory)
            return compared(self._accounts(), op["state"], "state")
        return self._add(op)

    def _add(self, op: Json) -> list[str]:
        topology = self.host.topology
        container = Container(
            op["container"],
            {name: Quantity.of(size) for name, size in op["requests"].items()},
            is_init=op["kind"] != "app",
            is_restartable=op["kind"] == "sidecar",
        )
        pod = self._grown(op["pod"], container)
        draft = Draft(self.host, self.state, pod)
        answer = draft.answers(container)[2]
        found = compared(_listed(answer), op["hints"], "hints")
        hint, admit = host.NO_HINT, True
        if topology is not None:
            hint, admit = topology.decide(topology.merger, flattened([answer]), explain=True)
        merged = [None if hint.nodes is None else list(bits(hint.nodes)), hint.preferred]
        found += compared(merged, op["merged"], "merged")
        found += compared(admit, op["admit"], "admitted")
        if not admit:
            return found
        try:
            draft.give_memory(container, hint)
        except AllocationError as error:
            return found + compared(error.text, op.get("error"), "error")
        self.state = draft.admitted()
        own = self.state.memory.entries[pod.uid]
        blocks = {
            name: [
                {"numaAffinity": list(b.nodes), "type": b.type, "size": b.size}
                for b in sorted(held, key=lambda b: b.type)
            ]
            for name, held in own.items()
        }
        found += compared(blocks, op.get("blocks"), "blocks")
        return found + compared(self._accounts(), op.get("state"), "state")

    def _grown(self, uid: str, container: Container) -> Pod:
        """The pod with one more container; its others are those of the sequence so far."""
        before = self.pods.get(uid, Pod(uid, qos=Qos.GUARANTEED))
        if container.is_init:
            pod = replace(before, init_containers=(*before.init_containers, container))
        else:
            pod = replace(before, containers=(*before.containers, container))
        self.pods[uid] = pod
        return pod

    def _accounts(self) -> dict[str, Any]:
        return {
            str(i): {
                "assignments": node.assignments,
                "cells": list(node.cells),
                "mem": {
                    name: [t.total, t.system_reserved, t.allocatable, t.reserved, t.free]
                    for name, t in node.tables.items()
                },
            }
            for i, node in self.state.memory.machine.items()
        }


def _listed(answer: ProviderHints) -> dict[str, Any]:
    found: Mapping[str, Any] = answer or {}
    return {
        name: [[list(bits(h.nodes or 0)), h.preferred] for h in hints.listed()]
        for name, hints in found.items()
        if isinstance(hints, HintSet)
    }
