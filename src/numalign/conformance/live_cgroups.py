"""Compares the cgroup files of a live record with what the agent would write for the same pod."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from numalign.core.kubelet.cgroup_limits import (
    QuotaRule,
    cpuset_files,
    files_v2,
    limits_of_container,
    limits_of_pod,
    mems_of,
)
from numalign.core.kubelet.host import Host, HostState
from numalign.core.pod import Container, Pod
from numalign.core.values.sets import CpuSet, NodeSet, format_list, parse_list

POD: Final = ""  # the name of the pod's own group in a record
_PAGE_BYTES: Final = 4_096  # the kernel counts memory in these
_PAGES: Final = re.compile(r"hugetlb\.(.+)\.max")

Files = Mapping[str, str]


def cgroup_differences(
    groups: Mapping[str, Files], pod: Pod, state: HostState, host: Host, quota: QuotaRule
) -> Iterator[str]:
    """What differs in the groups of an admitted pod; ``state`` is that after the clean-up.

    Only what the record holds is compared: an init container that has ended has no group.
    """
    containers = {container.name: container for container in pod.in_order}
    for name, files in groups.items():
        where = f"cgroup of {name}" if name else "cgroup of the pod"
        if name != POD and name not in containers:
            yield f"{where}: the pod has no such container"
            continue
        sizes = _page_sizes(files)
        if name == POD:
            ours = _of_pod(pod, state, host, quota, sizes)
        else:
            ours = _of_container(pod, containers[name], state, host, quota, sizes)
        ours = _with_effective(ours, host)
        for file in sorted(files.keys() & ours.keys()):
            if _normal(file, files[file]) != _normal(file, ours[file]):
                yield f"{where}: {file} {ours[file]!r}, expected {files[file]!r}"


def _page_sizes(files: Iterable[str]) -> list[str]:
    return [match[1] for file in files if (match := _PAGES.fullmatch(file))]


def _of_pod(
    pod: Pod, state: HostState, host: Host, quota: QuotaRule, page_sizes: Iterable[str]
) -> dict[str, str]:
    own = state.cpu.entries.get(pod.uid, {})
    limits = limits_of_pod(pod, host.settings, any_exclusive=bool(own), quota=quota)
    return {"cpuset.cpus": "", "cpuset.mems": "", **files_v2(limits, page_sizes)}


def _of_container(
    pod: Pod,
    container: Container,
    state: HostState,
    host: Host,
    quota: QuotaRule,
    page_sizes: Iterable[str],
) -> dict[str, str]:
    own = state.cpu.entries.get(pod.uid, {}).get(container.name)
    blocks = state.memory.entries.get(pod.uid, {}).get(container.name, ())
    limits = limits_of_container(
        pod, container, host.settings, exclusive=own is not None, quota=quota
    )
    cpus = own if own is not None else state.cpu.shared
    # Without a policy, or with a pool that has run empty, nothing is written.
    placed = cpuset_files(CpuSet(cpus) if cpus and host.cpu else None, mems_of(blocks))
    # Huge pages are limited for the pod as a whole.
    pages = {f"hugetlb.{size}.max": "max" for size in page_sizes}
    return {"cpuset.cpus": "", "cpuset.mems": "", **pages, **files_v2(limits), **placed}


def _with_effective(files: Files, host: Host) -> dict[str, str]:
    """The files with what the kernel makes of the sets: an empty one means everything."""
    cpus = files["cpuset.cpus"] or str(CpuSet(host.cpu_topology.all))
    mems = files["cpuset.mems"] or str(NodeSet(_memory_nodes(host)))
    return {**files, "cpuset.cpus.effective": cpus, "cpuset.mems.effective": mems}


def _memory_nodes(host: Host) -> int:
    return sum(1 << node.id for node in host.info.nodes if node.memory_bytes)


def _normal(file: str, text: str) -> str:
    """The text as the kernel would show it: whole pages, lists with ranges."""
    if file.startswith("cpuset."):
        return format_list(parse_list(text)) if text else ""
    if file == "memory.max" and text.isdigit():
        return str(int(text) // _PAGE_BYTES * _PAGE_BYTES)
    return text
