"""A Machine from one file, whatever its format: it is told by the content, not by the name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from numalign.adapters.local.packed import read_file, unpacked
from numalign.adapters.sources.bundles import bundle_from_bytes, machine_of, starts_bundle
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.adapters.sources.tartree import is_tar, tar_tree
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import Machine
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.machine import machine_yaml
from numalign.wire.machine.cadvisor_json import read_cadvisor_json
from numalign.wire.machine.hwloc_xml import read_hwloc_xml

TEXT_BYTES_MAX: Final = 4 * 1024 * 1024  # hwloc's XML has some 800 bytes for each CPU
_SUFFIXES: Final = (
    *(".xz", ".gz", ".bz2", ".tar", ".tgz"),
    *(".xml", ".lstopo", ".json", ".yaml", ".yml"),
)


class _Outline(msgspec.Struct):
    """Enough of a JSON object to tell whose it is."""

    apiVersion: str | None = None  # noqa: N815 - the key's own name
    topology: msgspec.Raw = msgspec.Raw()


def machine_from_file(path: Path) -> Machine:
    """The machine that a file describes; DiscoveryError where it describes none."""
    source, name = str(path), _stem(path)
    plain = unpacked(read_file(path, source), source)
    if is_tar(plain):
        if starts_bundle(plain):
            return machine_of(bundle_from_bytes(plain, source), source)
        return read_machine(tar_tree(plain, source), name)
    if len(plain) > TEXT_BYTES_MAX:
        raise DiscoveryError(
            source, f"{len(plain)} bytes of text", f"at most {TEXT_BYTES_MAX} for a machine"
        )
    start = plain.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"<":
        return read_hwloc_xml(plain, source, name)
    if start == b"{":
        return _from_json(plain, source, name)
    return machine_yaml.load(_text(plain, source), source)


def _from_json(plain: bytes, source: str, name: str) -> Machine:
    try:
        outline = msgspec.json.decode(plain, type=_Outline)
    except DECODE_FAULTS as exc:
        raise DiscoveryError(source, f"unreadable JSON ({exc})", "one object") from exc
    if outline.apiVersion is not None:
        return machine_yaml.load(_text(plain, source), source)
    if bytes(outline.topology):
        return read_cadvisor_json(plain, source, name)
    raise DiscoveryError(
        source, "JSON with neither apiVersion nor topology", "a Machine or cAdvisor's machine info"
    )


def _text(plain: bytes, source: str) -> str:
    try:
        return plain.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise DiscoveryError(
            source,
            "bytes that are neither an archive nor text",
            "a tar capture, hwloc XML, cAdvisor JSON, or our YAML",
        ) from exc


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return (name or path.name).encode("utf-8", "replace").decode()
