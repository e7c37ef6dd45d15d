"""What our agent did, compared with what the kubelet did on the same step."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from numalign.conformance.live import sorted_blocks
from numalign.core.settings import Settings
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint

# What the agent says of totals, the kubelet says of static pods in other words.
_NO_VICTIMS: Final = "no set of running pods found to reclaim resources: ["
_UNORDERED: Final = "kubelet_internal_checkpoint"


def decision_differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """Admitted or refused, and in which words."""
    if is_refused(theirs) != is_refused(ours):
        yield f"agent {_words(ours)}, kubelet {_words(theirs)}"
        return
    if not is_refused(ours) or _words(ours) == _words(theirs):
        return
    name = (ours["reason"] or "").removeprefix("OutOf")
    if name == ours["reason"] or f"{_NO_VICTIMS}(res: {name}, " not in (theirs["message"] or ""):
        yield f"agent {_words(ours)}, kubelet {_words(theirs)}"


def is_refused(result: Mapping[str, Any]) -> bool:
    """Whether a pod was refused."""
    return result["phase"] == "Failed"


def _words(result: Mapping[str, Any]) -> tuple[str, str, str]:
    return result["phase"], result["reason"] or "", result["message"] or ""


def file_differences(
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    active: Collection[str],
    settings: Settings,
) -> Iterator[str]:
    """The bytes of the state files; of devices what these pods hold.

    The kubelet writes devices, and the memory blocks of one container, in a random order, and
    devices of pods that are gone for as long as no admission has cleaned up; the agent cleans up
    at once.
    """
    for name in ("cpu_manager_state", "memory_manager_state"):
        if name == "memory_manager_state" and is_refused(theirs):
            continue  # what it was given on the way the kubelet frees at the next admission
        first, second = ours[name], theirs[name]
        if first != second and name == memory_checkpoint.FILE_NAME:
            first, second = _ordered(first, settings), _ordered(second, settings)
        if first != second:
            places = list(_places(first, second)) or ["only the bytes differ"]
            yield f"{name}: {'; '.join(places)}"
    first, second = (_devices(found[_UNORDERED], active) for found in (ours, theirs))
    if first != second:
        yield f"{_UNORDERED}: agent {first}, kubelet {second}"


def _ordered(text: str, settings: Settings) -> str:
    """The memory manager's file with the blocks of each container in one order."""
    state = memory_checkpoint.decode(text.encode(), settings)
    state = replace(state, entries=sorted_blocks(state))
    return memory_checkpoint.encode(state, settings).decode()


def _places(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two JSON values differ, and how."""
    if isinstance(ours, str) and isinstance(theirs, str) and ours[:1] == theirs[:1] == "{":
        ours, theirs = json.loads(ours), json.loads(theirs)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _places(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif ours != theirs and path != ".checksum":
        yield f"{path}: agent {ours}, kubelet {theirs}"


def _devices(text: str | None, active: Collection[str]) -> Any:
    if text is None:
        return None
    file = device_checkpoint.decode(text.encode())
    entries = [
        (
            e.pod,
            e.container,
            e.resource,
            {n: sorted(ids) for n, ids in e.devices.items()},
            e.response,
        )
        for e in file.entries or ()
        if e.pod in active
    ]
    registered = {name: sorted(ids) for name, ids in (file.registered or {}).items()}
    return sorted(entries, key=repr), registered


def cgroup_differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """The cgroup files of the pod and its containers."""
    if theirs["cgroups"].keys() != ours["cgroups"].keys():
        yield f"cgroups: agent {sorted(ours['cgroups'])}, kubelet {sorted(theirs['cgroups'])}"
    for name in theirs["cgroups"].keys() & ours["cgroups"].keys():
        first, second = ours["cgroups"][name], theirs["cgroups"][name]
        if name and not second["cpuset.cpus"]:
            # A pool that has run empty: the kubelet lets it run anywhere, we on reserved CPUs.
            first = {**first, "cpuset.cpus": "", "cpuset.cpus.effective": ""}
            second = {**second, "cpuset.cpus.effective": ""}
        for file in sorted(first.keys() | second.keys()):
            if first.get(file) != second.get(file):
                yield (
                    f"cgroup of {name or 'the pod'}: {file}: agent {first.get(file)!r}, "
                    f"kubelet {second.get(file)!r}"
                )


def view_differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """The answers of PodResources, field by field."""
    for key in ("allocatable", "pods"):
        first, second = _normal(ours[key]), _normal(theirs[key])
        if first != second:
            yield f"PodResources {key}: agent {first}, kubelet {second}"


def _normal(found: Any) -> Any:
    """The answer without order, and without the host in the names of static pods."""
    if isinstance(found, Mapping):
        normal = {key: _normal(value) for key, value in found.items()}
        if isinstance(normal.get("name"), str):
            normal["name"] = normal["name"].removesuffix("-worker-1")
        return normal
    if isinstance(found, list | tuple):
        return sorted((_normal(one) for one in found), key=repr)
    return found
