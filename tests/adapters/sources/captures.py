"""Captures of machines that exist only here: the files that a kernel would show of them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path

from numalign.core.machine.machine import Machine
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.values.sets import format_list

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def bitmap(mask: int) -> str:
    """A set as the kernel prints bitmaps, in groups of 32 bits."""
    groups = max(1, (mask.bit_length() + 31) // 32)
    return ",".join(f"{mask >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(groups)))


def small_machine() -> Machine:
    """Two sockets with two cores of two threads each, huge pages, and a device of each kind."""
    return synthetic_machine("2s:1n:2c:2t,mem=4Gi,hp2Mi=16,gpu=1,nic=1,nvme=1,accel=1")


def sysfs_files(machine: Machine) -> dict[str, str]:
    """The files of sysfs and procfs that show this machine."""
    files = {
        "proc/meminfo": f"MemTotal: {machine.memory_bytes >> 10} kB\nMemFree: 1 kB\n",
        f"{CPU}/online": f"{machine.online}\n",
        f"{CPU}/present": f"{machine.online | machine.offline}\n",
        f"{NODE}/online": f"{machine.node_set}\n",
    }
    files |= _cpu_files(machine)
    files |= _cache_files(machine)
    files |= _node_files(machine)
    files |= _pci_files(machine)
    return {path: text if text.endswith("\n") else f"{text}\n" for path, text in files.items()}


def _cpu_files(machine: Machine) -> dict[str, str]:
    files = {}
    for cpu in machine.cpus:
        base = f"{CPU}/cpu{cpu.id}/topology"
        files |= {
            f"{base}/core_cpus": bitmap(machine.cores[cpu.core].mask),
            f"{base}/core_cpus_list": str(machine.cores[cpu.core]),
            f"{base}/package_cpus": bitmap(machine.sockets[cpu.socket].mask),
            f"{base}/physical_package_id": str(cpu.socket),
            f"{base}/core_id": str(cpu.core_id),
            f"{base}/die_id": "-1" if cpu.die is None else str(cpu.die),
            f"{base}/cluster_id": "65535" if cpu.cluster is None else str(cpu.cluster),
        }
    for cpu in machine.offline:
        files[f"{CPU}/cpu{cpu}/online"] = "0"
    return files


def _cache_files(machine: Machine) -> dict[str, str]:
    files = {}
    indexes = dict.fromkeys(machine.online, 0)
    for cache in machine.caches:
        for cpu in cache.cpus:
            base = f"{CPU}/cpu{cpu}/cache/index{indexes[cpu]}"
            indexes[cpu] += 1
            files |= {
                f"{base}/level": str(cache.level),
                f"{base}/type": cache.kind.value,
                f"{base}/size": f"{cache.size_bytes >> 10}K",
                f"{base}/shared_cpu_map": bitmap(cache.cpus.mask),
                f"{base}/shared_cpu_list": str(cache.cpus),
            }
            if cache.id is not None:
                files[f"{base}/id"] = str(cache.id)
    return files


def _node_files(machine: Machine) -> dict[str, str]:
    files = {}
    for node in machine.nodes:
        base = f"{NODE}/node{node.id}"
        files[f"{base}/cpumap"] = bitmap(node.cpus.mask)
        files[f"{base}/cpulist"] = format_list(node.cpus.mask)
        files[f"{base}/meminfo"] = f"Node {node.id} MemTotal:  {node.memory_bytes >> 10} kB\n"
        if node.distances is not None:
            files[f"{base}/distance"] = " ".join(map(str, node.distances))
        for pages in node.hugepages:
            name = f"hugepages-{pages.size_bytes >> 10}kB"
            files[f"{base}/hugepages/{name}/nr_hugepages"] = str(pages.count)
    for path in machine.memory_paths:
        base = f"{NODE}/node{path.target}/access1/initiators"
        files[f"{base}/node{path.initiator}/uevent"] = ""
        files[f"{base}/read_latency"] = str(path.read_latency_ns or 0)
        files[f"{base}/write_latency"] = str(path.write_latency_ns or 0)
        files[f"{base}/read_bandwidth"] = str(path.read_bandwidth_mib_s or 0)
        files[f"{base}/write_bandwidth"] = str(path.write_bandwidth_mib_s or 0)
    return files


_NAME_DIRECTORIES = {"nic": "net", "gpu": "drm", "nvme": "nvme", "accelerator": "accel"}


def _pci_files(machine: Machine) -> dict[str, str]:
    files = {}
    for device in machine.devices:
        base = f"{PCI}/{device.address}"
        files |= {
            f"{base}/class": f"0x{device.class_code:06x}",
            f"{base}/vendor": f"0x{device.vendor_id:04x}",
            f"{base}/device": f"0x{device.device_id:04x}",
            f"{base}/numa_node": "-1" if device.node is None else str(device.node),
        }
        if device.name:
            directory = _NAME_DIRECTORIES.get(device.kind.value, "block")
            files[f"{base}/{directory}/{device.name}/uevent"] = ""
    return files


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """The files on the disk, under a root."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def tar_bytes(
    files: Mapping[str, str],
    *,
    links: Mapping[str, str] | None = None,
    hard_links: Mapping[str, str] | None = None,
    prefix: str = "",
    packer: str = "",
) -> bytes:
    """The files as an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(prefix + path)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for kind, found in ((tarfile.SYMTYPE, links), (tarfile.LNKTYPE, hard_links)):
            for path, target in (found or {}).items():
                member = tarfile.TarInfo(prefix + path)
                member.type = kind
                member.linkname = target
                archive.addfile(member)
    return PACKERS[packer](buffer.getvalue())
