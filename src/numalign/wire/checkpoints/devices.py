"""The file ``kubelet_internal_checkpoint`` of the device manager, the same in 1.36 and 1.37.

Lists and maps may be null here, which gives another checksum than an empty one: null is None.
A file that cannot be read is no reason to stop; the kubelet logs it and starts empty.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from numalign.core.errors import CorruptCheckpointError, WireError
from numalign.wire.go import dump
from numalign.wire.go import json as gojson
from numalign.wire.go import shapes as goshapes
from numalign.wire.go.scalars import CHECKSUM, INT64, Bytes, Text
from numalign.wire.go.shapes import Items, Keyed, Numbered, Struct

FILE_NAME: Final = "kubelet_internal_checkpoint"
FOLDER: Final = "device-plugins"  # below the directory of the other state files
PLACE: Final = f"{FOLDER}/{FILE_NAME}"

K = TypeVar("K", str, int)
Ids = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class PodDevicesEntry:
    pod: str
    container: str
    resource: str
    devices: Mapping[int, Ids] | None  # NUMA node (-1: none) and device ids
    response: bytes | None  # what the plugin answered, serialized


@dataclass(frozen=True, slots=True)
class DeviceCheckpoint:
    """The content of the file: what is given, and the healthy devices of each resource."""

    entries: tuple[PodDevicesEntry, ...] | None
    registered: Mapping[str, Ids] | None


def encode(checkpoint: DeviceCheckpoint) -> bytes:
    """The bytes of the file."""
    data = gojson.written_object(
        [
            ("PodDeviceEntries", _written_entries(checkpoint.entries)),
            ("RegisteredDevices", _written_ids_by(checkpoint.registered)),
        ]
    )
    members = [("Data", data), ("Checksum", str(checksum(checkpoint)))]
    return gojson.written_object(members).encode()


def decode(data: bytes) -> DeviceCheckpoint:
    """The content of the bytes of a file; CorruptCheckpointError with the kubelet's words."""
    try:
        record = goshapes.read(data, _FILE)
    except WireError as exc:
        raise CorruptCheckpointError(str(exc)) from exc
    checkpoint = _checkpoint(record.data)
    if record.checksum != checksum(checkpoint):
        raise CorruptCheckpointError("checkpoint is corrupted")
    return checkpoint


def checksum(checkpoint: DeviceCheckpoint) -> int:
    return dump.checksum(dumped(checkpoint))


def dumped(checkpoint: DeviceCheckpoint) -> str:
    return (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        f"{dump.listing(checkpoint.entries, _dumped_entry)} "
        f"RegisteredDevices:(map[string][]string){_dumped_ids_by(checkpoint.registered)}}}"
    )


def _dumped_entry(entry: PodDevicesEntry) -> str:
    return (
        f"{{PodUID:(string){entry.pod} ContainerName:(string){entry.container} "
        f"ResourceName:(string){entry.resource} "
        f"DeviceIDs:(checkpoint.DevicesPerNUMA){_dumped_ids_by(entry.devices)} "
        f"AllocResp:([]uint8){dump.listing(entry.response)}}}"
    )


def _dumped_ids_by(ids_by: Mapping[K, Ids] | None) -> str:
    return dump.mapping(ids_by, dump.listing)


def _written_entries(entries: tuple[PodDevicesEntry, ...] | None) -> str:
    return "null" if entries is None else gojson.written_list(map(_written_entry, entries))


def _written_entry(entry: PodDevicesEntry) -> str:
    devices = entry.devices
    by_text = None if devices is None else {str(node): ids for node, ids in devices.items()}
    response = entry.response
    return gojson.written_object(
        [
            ("PodUID", gojson.quote(entry.pod)),
            ("ContainerName", gojson.quote(entry.container)),
            ("ResourceName", gojson.quote(entry.resource)),
            ("DeviceIDs", _written_ids_by(by_text)),
            (
                "AllocResp",
                "null" if response is None else f'"{base64.b64encode(response).decode()}"',
            ),
        ]
    )


def _written_ids_by(ids_by: Mapping[str, Ids] | None) -> str:
    if ids_by is None:
        return "null"
    return gojson.written_map(
        {
            key: "null" if ids is None else gojson.written_list(map(gojson.quote, ids))
            for key, ids in ids_by.items()
        }
    )


class _Entry(msgspec.Struct):
    pod: str = ""
    container: str = ""
    resource: str = ""
    devices: dict[int, list[str] | None] | None = None
    response: bytes | None = None


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(default_factory=list)
    registered: dict[str, list[str] | None] | None = msgspec.field(default_factory=dict)


class _File(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)
    checksum: int = 0


_TEXT: Final = Text()
_ENTRY_SHAPE: Final = Struct(
    "checkpoint.PodDevicesEntry",
    _Entry,
    {
        "PodUID": ("pod", _TEXT),
        "ContainerName": ("container", _TEXT),
        "ResourceName": ("resource", _TEXT),
        "DeviceIDs": ("devices", Numbered(Items(_TEXT), INT64, "checkpoint.DevicesPerNUMA")),
        "AllocResp": ("response", Bytes()),
    },
)
_DATA_SHAPE: Final = Struct(
    "checkpoint.checkpointData",
    _Data,
    {
        "PodDeviceEntries": ("entries", Items(_ENTRY_SHAPE)),
        "RegisteredDevices": ("registered", Keyed(Items(_TEXT))),
    },
)
_FILE: Final = Struct(
    "checkpoint.Data",
    _File,
    {
        "Data": ("data", _DATA_SHAPE),
        "Checksum": ("checksum", CHECKSUM),
    },
)


def _checkpoint(data: _Data) -> DeviceCheckpoint:
    return DeviceCheckpoint(
        None if data.entries is None else tuple(map(_entry, data.entries)),
        None
        if data.registered is None
        else {resource: _ids(ids) for resource, ids in data.registered.items()},
    )


def _entry(entry: _Entry) -> PodDevicesEntry:
    devices = entry.devices
    return PodDevicesEntry(
        entry.pod,
        entry.container,
        entry.resource,
        None if devices is None else {node: _ids(ids) for node, ids in devices.items()},
        entry.response,
    )


def _ids(ids: list[str] | None) -> Ids:
    return None if ids is None else tuple(ids)
