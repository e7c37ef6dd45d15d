"""Replays live records: a real kubelet on a real NUMA kernel, one static pod after the other.

A record holds everything: the machine as sysfs files, the kubelet's whole configuration, the
devices of its plugins, and after each pod its status, the bytes of the state files and what is in
the cgroups. So this goes the same way as a real host: discovery, configuration, decision, files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.conformance.live_cgroups import cgroup_differences
from numalign.conformance.reading import Json
from numalign.core.errors import (
    ConfigError,
    CorruptCheckpointError,
    DiscoveryError,
    StartError,
    WireError,
)
from numalign.core.kubelet import host
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.cgroup_limits import QuotaRule
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.state import Block, MemoryState
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.pod import Pod, qos_class
from numalign.core.settings import Version
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints import state_files
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.host_settings import host_settings
from numalign.wire.pods import manifests as pods

REJECTED: Final = "Pod was rejected: "
_VERSION: Final = re.compile(r"v?(\d+\.\d+)(\..*)?")


def live(record: Json) -> list[str]:
    """The differences between a live record and ours, with the step of each."""
    try:
        replay = _Live(record)
    except (StartError, ConfigError, DiscoveryError) as error:
        return [f"refused to start: {error}; expected a start"]
    differences: list[str] = []
    for number, step in enumerate(record["steps"]):
        found = list(replay.step(step))
        differences += [f"step {number} ({_name(step)}): {text}" for text in found]
    return differences


def version_of(text: str) -> Version:
    """The minor version of ``1.36.4``."""
    match = _VERSION.fullmatch(text)
    known = [version.value for version in Version]
    if match is None or match[1] not in known:
        raise WireError(f"kubernetes: found {text!r}, expected a version of {', '.join(known)}")
    return Version(match[1])


def _name(step: Json) -> str:
    if "apply" in step:
        return f"apply {step['apply']['metadata']['name']}"
    if "delete" in step:
        return f"delete {step['delete']}"
    return " ".join(sorted({*step} - {"result"}))


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
        version = version_of(record["kubernetes"])
        machine = read_machine(MappingTree(record["machine"]), record.get("name", "record"))
        info = machine_info(machine)
        config = kubelet_config.load(json.dumps(record["config"]), version=version)
        self.settings = host_settings(config, machine, version=version)
        self.host = host.build(self.settings, info)
        pods_max = config.pods_max_on(info.cpu_count)
        self.totals = node_fit.allocatable(self.settings, info, pods_max=pods_max)
        self.quota = QuotaRule(
            enforced=config.cpu_cfs_quota, period_us=config.cpu_cfs_quota_period_ns // 1000
        )
        self.plugins = {
            name: _devices(items) for name, items in (record.get("devices") or {}).items()
        }
        self.state: HostState = self._registered(host.start(self.host))
        self.manifests: dict[str, Pod] = {}  # by name, in the order of application
        self.refused: dict[str, str] = {}  # name -> reason
        self.is_stopped = False

    def _registered(self, state: HostState) -> HostState:
        found = state.devices
        for name, items in self.plugins.items():
            found = devices.with_reported(found, name, devices.device_resource(items))
        return replace(state, devices=found)

    def step(self, step: Json) -> Iterator[str]:
        result = step.get("result") or {}
        if "apply" in step:
            yield from self._apply(step["apply"], result)
        elif "delete" in step:
            self._delete(step["delete"])
        elif "stop" in step:
            self._stop()
        elif "restart" in step or "start" in step:
            if "restart" in step:
                self._stop()
            self.is_stopped = False
            yield from self._restart(result)
        else:
            raise WireError(
                f"steps: found one with {sorted(step)}, expected apply, delete, restart, stop "
                "or start"
            )

    def _stop(self) -> None:
        """Ends the kubelet: its loop has freed CPUs of pods that are gone, but not their memory."""
        self.is_stopped = True
        self.state = replace(self.state, cpu=host.cleaned(self.host, self.state).cpu)

    def _delete(self, name: str) -> None:
        pod = self.manifests.pop(name, None)
        self.refused.pop(name, None)
        if pod is not None:
            self.state = host.ended(self.state, pod.uid)

    def _apply(self, manifest: Json, result: Json) -> Iterator[str]:
        pod = pods.core_pod(pods.load_all(json.dumps(manifest).encode(), source="record")[0])
        name = manifest["metadata"]["name"]
        self.manifests[name] = pod
        if self.is_stopped:
            return  # seen when the kubelet starts
        qos = qos_class(pod, self.settings)
        if qos != (result.get("qos") or qos):
            yield f"QoS class {qos}, expected {result['qos']}"
        words = self._decided(pod, list(self.state.pods.values()))
        expected = _refusal(result)
        if words is not None:
            self.refused[name] = words[0]
            words = words[0], REJECTED + words[1]
        if "phase" in result and words != expected:
            yield f"{_told(words)}, expected {result['phase']} {_told(expected)}"
            return
        if words is None:
            self.state = host.containers_started(self.state, pod.uid)
            yield from self._device_differences(pod, result)
        self._follow_devices(result)
        if words is None and result.get("phase") in {"Succeeded", "Failed"}:
            yield from self._over(pod, result)
            return
        yield from self._file_differences(result)
        if words is None:
            yield from cgroup_differences(
                result.get("cgroups") or {},
                pod,
                host.cleaned(self.host, self.state),
                self.host,
                self.quota,
            )

    def _over(self, pod: Pod, result: Json) -> Iterator[str]:
        """A pod that has run to its end: the files were read before or after the clean-up."""
        held = list(self._file_differences(result))
        self.state = host.ended(self.state, pod.uid)
        if held:
            yield from self._file_differences(result)

    def _decided(self, pod: Pod, others: list[Pod]) -> tuple[str, str] | None:
        """Reason and message of a refusal, or None; ``others`` count for the node fit.

        All pods of a record are static and so critical.
        """
        self.state, verdict = verdict_on(
            self.host, self.state, self.totals, pod, is_critical=True, others=others
        )
        return refusal(verdict)

    # Files.

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
            theirs = result.get(name)
            if theirs and ours != theirs and not self._is_reordered(name, ours, theirs):
                yield f"file {name}: {ours}, expected {theirs}"

    def _is_reordered(self, name: str, ours: str, theirs: str) -> bool:
        """Whether only the order of a container's memory blocks differs: the kubelet has none."""
        if name != memory_checkpoint.FILE_NAME:
            return False
        try:
            states = [memory_checkpoint.decode(t.encode(), self.settings) for t in (ours, theirs)]
        except CorruptCheckpointError:
            return False
        first, second = (replace(s, entries=sorted_blocks(s)) for s in states)
        return first == second

    # Devices.

    def _device_differences(self, pod: Pod, result: Json) -> Iterator[str]:
        """Compares how many devices of which NUMA nodes each container got."""
        saved = _saved_devices(result)
        if saved is None:
            return
        ours, theirs = self.state.devices.entries.get(pod.uid, {}), saved.entries.get(pod.uid, {})
        for container in pod.in_order:
            mine, other = ours.get(container.name, {}), theirs.get(container.name, {})
            for name in sorted(mine.keys() | other.keys()):
                found = [held[name].ids if name in held else () for held in (mine, other)]
                if not self._is_alike(pod, container.name, name, found):
                    yield f"container {container.name}: {name} {found[0]}, expected {found[1]}"

    def _is_alike(self, pod: Pod, container: str, name: str, found: list[tuple[str, ...]]) -> bool:
        """Whether two choices of devices differ only where the kubelet picks at random.

        It prefers devices on the nodes of the hint, then others, then those on no node; and before
        all of these what init containers of the pod leave.
        """
        resource = self.state.devices.resources.get(name, devices.EMPTY)
        nodes = self.state.hint(pod.uid, container).nodes
        first, second = (devices.split(resource, resource.mask(ids), nodes) for ids in found)
        if [group.bit_count() for group in first] == [group.bit_count() for group in second]:
            return len(found[0]) == len(found[1])
        left = {
            device
            for c in pod.in_order
            if c.is_regular_init and c.name != container
            for device in self.state.devices.held(pod.uid, c.name, name)
        }
        return len(found[0]) == len(found[1]) and left.issuperset(found[1])

    def _follow_devices(self, result: Json) -> None:
        """Takes the recorded device ids over: among equal devices the kubelet picks at random."""
        saved = _saved_devices(result)
        if saved is not None:
            restored = devices.restored(saved)
            self.state = self._registered(replace(self.state, devices=restored, unchecked=True))

    # Restarts.

    def _restart(self, result: Json) -> Iterator[str]:
        """The kubelet killed and started again.

        Static pods are all admitted again, in the order of their manifests' names, also those that
        were refused before, and before the device plugins are back. So long nothing is freed.
        """
        state = self.state
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
        for name, pod in sorted(self.manifests.items(), key=lambda item: f"{item[0]}.json"):
            # What ran before is active while the others are admitted again.
            self.state = replace(self.state, pods={**held, **self.state.pods})
            words = self._decided(pod, again)
            if words is None:
                again.append(pod)
            else:
                self.refused[name] = words[0]
                held.pop(pod.uid, None)
        self.state = self._registered(host.sources_ready(self.state))
        yield from self._pod_differences(result.get("pods") or {})
        yield from self._file_differences(result)

    def _pod_differences(self, found: Mapping[str, tuple[str, str | None]]) -> Iterator[str]:
        for full_name, (_, reason) in found.items():
            name = _manifest_name(full_name, self.manifests)
            if name is not None and self.refused.get(name) != reason:
                yield f"pod {full_name}: {self.refused.get(name)}, expected {reason}"


def _refusal(result: Json) -> tuple[str, str] | None:
    """Why the kubelet refused a pod; None if it let it run, whatever became of it."""
    message = result.get("message") or ""
    return (result["reason"], message) if message.startswith(REJECTED) else None


def _told(words: tuple[str, str] | None) -> str:
    return "admitted" if words is None else f"{words[0]}: {words[1]}"


def _manifest_name(full_name: str, known: Iterable[str]) -> str | None:
    """The name in the manifest of a static pod, to which the kubelet adds that of its host."""
    fitting = [name for name in known if full_name == name or full_name.startswith(f"{name}-")]
    return max(fitting, key=len, default=None)


def _saved_devices(result: Json) -> devices.SavedDevices | None:
    text = result.get(device_checkpoint.FILE_NAME)
    if not text:
        return None
    return state_files.saved_devices(device_checkpoint.decode(text.encode()))


def sorted_blocks(state: MemoryState) -> dict[str, dict[str, tuple[Block, ...]]]:
    """The blocks of each container in one order; the kubelet has none."""
    return {
        uid: {
            name: tuple(sorted(blocks, key=lambda block: block.type))
            for name, blocks in containers.items()
        }
        for uid, containers in state.entries.items()
    }
