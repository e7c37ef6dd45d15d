"""Replays live records: a real kubelet on a real NUMA kernel, one static pod after the other.

A record holds everything: the machine as sysfs files, the kubelet's whole configuration, the
devices of its plugins, and after each pod its status and the bytes of the state files. So this goes
the same way as a real host: discovery, configuration, decision, files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from numalign.adapters.filetree import MappingTree
from numalign.adapters.sysfs import read_machine
from numalign.conformance.reading import Json
from numalign.core import devices, host, node_fit
from numalign.core.host import HostState
from numalign.core.machine_info import machine_info
from numalign.core.pod import Pod, qos_class
from numalign.core.settings import Version
from numalign.core.situation import refusal, verdict_on
from numalign.core.state import Block, MemoryState
from numalign.wire import (
    cpu_checkpoint,
    device_checkpoint,
    device_holdings,
    kubelet_config,
    memory_checkpoint,
    pods,
)
from numalign.wire.host_settings import host_settings

REJECTED = "Pod was rejected: "


def live(record: Json) -> list[str]:
    """The differences between a live record and ours, the first of each step."""
    replay = _Live(record)
    differences: list[str] = []
    for number, step in enumerate(record["steps"]):
        found = list(replay.step(step))
        differences += [f"step {number} ({_name(step)}): {text}" for text in found]
    return differences


def _name(step: Json) -> str:
    if "apply" in step:
        return f"apply {step['apply']['metadata']['name']}"
    return f"delete {step['delete']}" if "delete" in step else "restart"


def _devices(items: list[str]) -> list[devices.Device]:
    found = []
    for item in items:
        device, _, nodes = item.partition("=")
        found.append(
            devices.Device(device, tuple(int(n) for n in nodes.split(",")) if nodes else None)
        )
    return found


class _Live:
    def __init__(self, record: Json) -> None:
        version = Version(record["kubernetes"].rpartition(".")[0])
        machine = read_machine(MappingTree(record["machine"]), record["name"])
        info = machine_info(machine)
        config = kubelet_config.load(json.dumps(record["config"]), version=version)
        self.settings = host_settings(config, machine, version=version)
        self.host = host.build(self.settings, info)
        self.totals = node_fit.allocatable(self.settings, info)
        self.plugins = {name: _devices(items) for name, items in record["devices"].items()}
        self.state: HostState = self._registered(host.start(self.host))
        self.manifests: dict[str, Pod] = {}  # by name, in the order of application
        self.refused: dict[str, str] = {}  # name -> reason

    def _registered(self, state: HostState) -> HostState:
        found = state.devices
        for name, items in self.plugins.items():
            found = devices.with_reported(found, name, devices.device_resource(items))
        return replace(state, devices=found)

    def step(self, step: Json) -> Iterator[str]:
        if "apply" in step:
            yield from self._apply(step["apply"], step["result"])
        elif "delete" in step:
            self.state = host.ended(self.state, self.manifests.pop(step["delete"]).uid)
            self.refused.pop(step["delete"], None)
        else:
            yield from self._restart(step["result"])

    def _apply(self, manifest: Json, result: Json) -> Iterator[str]:
        pod = pods.core_pod(pods.load_all(json.dumps(manifest).encode(), source="record")[0])
        name = manifest["metadata"]["name"]
        self.manifests[name] = pod
        qos = qos_class(pod, self.settings)
        if qos != result["qos"]:
            yield f"QoS class {qos}, expected {result['qos']}"
        reason, message = self._decided(pod, list(self.state.pods.values()))
        if reason is not None:
            self.refused[name] = reason
            message = REJECTED + (message or "")
        if (reason, message) != (result["reason"], result["message"]):
            yield (
                f"{reason}: {message}, expected {result['phase']} "
                f"{result['reason']}: {result['message']}"
            )
            return
        if reason is None:
            self.state = host.containers_started(self.state, pod.uid)
        yield from self._file_differences(result)
        self._follow_devices(result)

    def _decided(self, pod: Pod, others: list[Pod]) -> tuple[str | None, str | None]:
        """Reason and message of a refusal, or None twice; ``others`` count for the node fit.

        All pods of a record are static and so critical.
        """
        self.state, verdict = verdict_on(
            self.host, self.state, self.totals, pod, is_critical=True, others=others
        )
        return refusal(verdict) or (None, None)

    def _files(self) -> dict[str, str]:
        # The kubelet frees CPUs of pods that are gone in its reconcile loop, which ran before the
        # files were read, but memory only at the next admission.
        clean = host.cleaned(self.host, self.state)
        return {
            cpu_checkpoint.FILE_NAME: cpu_checkpoint.encode(clean.cpu, self.settings).decode(),
            memory_checkpoint.FILE_NAME: memory_checkpoint.encode(
                self.state.memory, self.settings
            ).decode(),
        }

    def _file_differences(self, result: Json) -> Iterator[str]:
        for name, ours in self._files().items():
            if ours != result[name] and not self._is_reordered(name, ours, result[name]):
                yield f"file {name}: {ours}, expected {result[name]}"

    def _is_reordered(self, name: str, ours: str, theirs: str) -> bool:
        """Whether only the order of a container's memory blocks differs: the kubelet has none."""
        if name != memory_checkpoint.FILE_NAME:
            return False
        states = [memory_checkpoint.decode(t.encode(), self.settings) for t in (ours, theirs)]
        first, second = (replace(s, entries=_sorted_blocks(s)) for s in states)
        return first == second

    def _follow_devices(self, result: Json) -> None:
        """Takes the recorded device ids over: among equal devices the kubelet picks at random."""
        text = result.get(device_checkpoint.FILE_NAME)
        if text:
            saved = device_holdings.saved_of(device_checkpoint.decode(text.encode()))
            restored = devices.restored(saved)
            self.state = self._registered(replace(self.state, devices=restored, unchecked=True))

    def _restart(self, result: Json) -> Iterator[str]:
        """The kubelet killed and started again.

        Static pods are all admitted again, also those that were refused before, and before the
        device plugins are back.
        """
        state = host.cleaned(self.host, self.state)
        running = frozenset((pod.uid, c.name) for pod in state.pods.values() for c in pod.in_order)
        self.state = host.start(
            self.host,
            cpu=state.cpu,
            memory=state.memory,
            saved_devices=state.devices.saved,
            running=running,
        )
        held = dict(state.pods)
        again: list[Pod] = []
        self.refused.clear()
        for name, pod in self.manifests.items():
            # What ran before is active while the others are admitted again.
            self.state = replace(self.state, pods={**held, **self.state.pods})
            reason, _ = self._decided(pod, again)
            if reason is None:
                again.append(pod)
            else:
                self.refused[name] = reason
                held.pop(pod.uid, None)
        self.state = self._registered(host.sources_ready(self.state))
        for name, (_, reason) in result["pods"].items():
            ours = self.refused.get(name.removesuffix("-worker-1"))
            if ours != reason:
                yield f"pod {name}: {ours}, expected {reason}"
        yield from self._file_differences(result)


def _sorted_blocks(state: MemoryState) -> dict[str, dict[str, tuple[Block, ...]]]:
    return {
        uid: {
            name: tuple(sorted(blocks, key=lambda block: block.type))
            for name, blocks in containers.items()
        }
        for uid, containers in state.entries.items()
    }
