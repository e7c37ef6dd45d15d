"""A captured host in one file: a tar archive with a list of what is in it.

    capture.json           what this is, when and by whom it was made, and its other members
    kubelet-config.json    the KubeletConfiguration, only what placement depends on
    state/NAME             the three state files, byte for byte
    pods.json              a v1.PodList: names, uids and resources
    pod-resources.json     what the PodResources API answered
    kernel-files.json      the files of sysfs and procfs that show the machine, path -> text;
                           or machine.json for one that was not read from a kernel

See docs/reference/bundle.md.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from numalign.core.errors import WireError
from numalign.core.kubelet import older_versions
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.older_versions import Kubernetes
from numalign.core.settings import Fidelity, Version
from numalign.core.views.podresources import View
from numalign.wire.checkpoints import state_files
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.records import PodRecord

API_VERSION: Final = "numalign.io/v1"
KIND: Final = "Capture"
ABOUT: Final = "capture.json"
CONFIG: Final = "kubelet-config.json"
PODS: Final = "pods.json"
POD_RESOURCES: Final = "pod-resources.json"
MACHINE: Final = "machine.json"
KERNEL_FILES: Final = "kernel-files.json"
STATE_FILES: Final = state_files.FILE_NAMES
MEMBER_MODE: Final = 0o600

T = TypeVar("T")


class DeviceRecord(msgspec.Struct, omit_defaults=True, frozen=True, forbid_unknown_fields=True):
    """One device as its plugin reports it; without ``nodes`` it said nothing about NUMA."""

    id: str
    nodes: tuple[int, ...] | None = None
    healthy: bool = True


class About(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What ``capture.json`` says."""

    api_version: str = API_VERSION
    kind: str = KIND
    created_at: str  # UTC, as in 2026-01-31T12:00:00Z
    numalign: str  # the version that made it
    host: str = ""
    kubernetes: str = Version.V1_36.value  # the host's version
    fidelity: Fidelity = Fidelity.KUBELET
    origin: str = "kubelet"  # or agent: our own
    pods_complete: bool = False
    pods_max: int | None = None
    names: dict[str, str] = {}  # uid -> namespace/name
    devices: dict[str, tuple[DeviceRecord, ...]] | None = None
    notes: tuple[str, ...] = ()
    members: dict[str, int] = {}  # path -> bytes, all others


@dataclass(frozen=True, slots=True)
class Bundle:
    about: About
    files: Mapping[str, bytes]  # all members but capture.json

    @property
    def kubernetes(self) -> Kubernetes:
        """The version of the host, and whose rules stand for it."""
        return older_versions.parsed(self.about.kubernetes)

    @property
    def state(self) -> dict[str, bytes]:
        found = {name: self.files.get(f"state/{name}") for name in STATE_FILES}
        return {name: data for name, data in found.items() if data is not None}

    def kernel_files(self, source: str) -> dict[str, str]:
        data = self.files.get(KERNEL_FILES)
        return {} if data is None else _typed(data, dict[str, str], f"{source}: {KERNEL_FILES}")

    def devices(self) -> dict[str, tuple[Device, ...]] | None:
        """What plugins report, where that was told outright."""
        if self.about.devices is None:
            return None
        return {
            name: tuple(Device(d.id, d.nodes, d.healthy) for d in found)
            for name, found in self.about.devices.items()
        }

    def pods(self, source: str) -> tuple[PodRecord, ...]:
        data = self.files.get(PODS)
        return () if data is None else _typed(data, _PodList, f"{source}: {PODS}").items

    def pod_resources(self, source: str) -> View | None:
        data = self.files.get(POD_RESOURCES)
        return None if data is None else _typed(data, View, f"{source}: {POD_RESOURCES}")


class _PodList(msgspec.Struct):
    apiVersion: str = "v1"  # noqa: N815
    kind: str = "PodList"
    items: tuple[PodRecord, ...] = ()


def pod_list(records: tuple[PodRecord, ...]) -> bytes:
    return msgspec.json.encode(_PodList(items=records))


def pod_resources(view: View) -> bytes:
    """The member with what the PodResources API answered."""
    return msgspec.json.encode(view)


def kernel_files(files: Mapping[str, str]) -> bytes:
    """The member with the files of sysfs and procfs; one, since thousands take long to unpack."""
    return msgspec.json.encode(dict(sorted(files.items())))


def document(content: Mapping[str, object]) -> bytes:
    """Plain values as the text of a member, for people to read too."""
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def packed(bundle: Bundle) -> bytes:
    """The bytes of a bundle: the same content gives the same bytes."""
    sizes = {path: len(data) for path, data in sorted(bundle.files.items())}
    about = msgspec.structs.replace(bundle.about, members=sizes)
    text = document(msgspec.to_builtins(about))
    return tar_gz([(ABOUT, text), *sorted(bundle.files.items())])


def tar_gz(members: Iterable[tuple[str, bytes]]) -> bytes:
    """An archive of these members in this order, without times or owners."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in members:
            member = tarfile.TarInfo(path)
            member.size = len(data)
            member.mode = MEMBER_MODE
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), mtime=0)


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def bundle_of(files: Mapping[str, bytes], source: str) -> Bundle:
    """The bundle with these members; WireError where it is none, or not whole."""
    text = files.get(ABOUT)
    if text is None:
        raise WireError(
            f"{source}: found no {ABOUT}, expected a bundle of 'numalign capture'. To look at a "
            "machine alone, give it with --machine."
        )
    head = _typed(text, _Head, f"{source}: {ABOUT}")
    if (head.api_version, head.kind) != (API_VERSION, KIND):
        raise WireError(
            f"{source}: found {head.kind or 'no kind'} of {head.api_version or 'no apiVersion'}, "
            f"expected {KIND} of {API_VERSION}. Read it with the version of numalign that made it."
        )
    about = _typed(text, About, f"{source}: {ABOUT}")
    try:
        older_versions.parsed(about.kubernetes)
    except ValueError as error:
        raise WireError(f"{source}: {ABOUT}: kubernetes: {error}.") from error
    for path, size in about.members.items():
        if path not in files:
            raise WireError(
                f"{source}: found no {path}, although {ABOUT} lists it. Capture the host again."
            )
        if len(files[path]) != size:
            raise WireError(
                f"{source}: {path}: found {len(files[path])} bytes, expected {size}. Capture the "
                "host again."
            )
    if MACHINE not in about.members and KERNEL_FILES not in about.members:
        raise WireError(f"{source}: found neither {KERNEL_FILES} nor {MACHINE} in it.")
    return Bundle(about, {path: files[path] for path in about.members})


def _typed(data: bytes, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_FAULTS as error:
        raise WireError(f"{where}: {error}. Capture the host again.") from error
