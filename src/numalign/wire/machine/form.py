"""The shape of our own machine files, the same in YAML and in JSON.

It is made to be written by hand: sets are lists as the kernel prints them, amounts are
Kubernetes quantities, and what repeats is said once. docs/reference/machine-yaml.md has the
fields one by one.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from numalign.core.machine.machine import DeviceKind

API_VERSION: Final = "numalign.io/v1"
KIND: Final = "Machine"

Place = Literal["cpu", "core", "die", "node", "socket"]
Text = str | int  # YAML reads the set "5" and the amount "1024" as numbers


class NodeForm(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: int
    cpus: Text = ""
    memory: Text = 0
    hugepages: dict[str, int] = {}
    distances: list[int] | None = None


class SocketForm(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename={"core_ids": "coreIds"}
):
    """One socket: its cores as sets of CPUs with spaces between them."""

    id: int
    cores: Text
    core_ids: Text | None = None  # 0, 1, 2, ... unless told
    dies: dict[int, Text] = {}
    clusters: dict[int, Text] = {}


class CacheForm(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """All caches of one level, kind and size: one for each core or node, or of the CPUs named."""

    level: int
    type: Literal["Unified", "Data", "Instruction"]
    size: Text
    per: Place | None = None
    cpus: Text | None = None
    ids: Text | None = None


class DeviceForm(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"class_code": "class", "virtual_function": "virtualFunction"},
):
    """One PCI device. The class follows from the kind, or the kind from the class."""

    address: str
    kind: DeviceKind | None = None
    class_code: Text | None = None
    vendor: Text = 0
    device: Text = 0
    node: int | None = None
    name: str = ""
    virtual_function: bool = False


class PathForm(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={
        "read_latency": "readLatencyNs",
        "write_latency": "writeLatencyNs",
        "read_bandwidth": "readBandwidthMiBs",
        "write_bandwidth": "writeBandwidthMiBs",
    },
):
    """What the firmware says of one node's access to another one's memory."""

    initiator: int
    target: int
    read_latency: int | None = None
    write_latency: int | None = None
    read_bandwidth: int | None = None
    write_bandwidth: int | None = None


class MachineForm(
    msgspec.Struct,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    rename={"api_version": "apiVersion", "memory_paths": "memoryPaths"},
):
    api_version: str
    kind: str
    name: str = ""
    memory: Text | None = None  # the sum of the nodes unless told
    sockets: list[SocketForm]
    nodes: list[NodeForm]
    caches: list[CacheForm] = []
    devices: list[DeviceForm] = []
    memory_paths: list[PathForm] = []
    offline: Text = ""
    notes: list[str] = []
