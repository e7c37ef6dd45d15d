"""A tar archive of a machine's files, read in memory and never unpacked to the disk.

The files may start at the archive's root (``sys/...``) or one folder down (``NAME/sys/...``).
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from numalign.adapters.local.packed import unpacked
from numalign.adapters.sources.filetree import FILE_BYTES_MAX, MappingTree, linked_path
from numalign.core.errors import DiscoveryError

T = TypeVar("T")

MEMBERS_MAX: Final = 60_000  # hwloc's capture of 256 CPUs has 16,000
FOLDERS_MAX: Final = 50_000
NAME_LENGTH_MAX: Final = 1_000
STEPS_MAX: Final = 50  # of a name; sysfs has less than 25
_CPU_DIRECTORY: Final = "sys/devices/system/cpu"
# What the tarfile module lets through when the bytes are damaged.
_DAMAGE: Final = (
    *(tarfile.TarError, OSError, EOFError, ValueError, OverflowError, LookupError),
    RecursionError,  # headers that each announce another one
)


def is_tar(data: bytes) -> bool:
    """Whether unpacked data looks like a tar archive of any age."""
    return data[257:262] == b"ustar" or _has_old_header(data)


def tar_tree(data: bytes, source: str) -> MappingTree:
    files, links = tar_members(unpacked(data, source), source)
    root = _root(files, source)
    if not root:
        return MappingTree(files, links=links, source=source)
    return MappingTree(_under(root, files), links=_under(root, links), source=source)


def tar_members(plain: bytes, source: str) -> tuple[dict[str, memoryview], dict[str, str]]:
    """The files and links of an uncompressed archive; DiscoveryError where it is damaged."""
    files: dict[str, memoryview] = {}
    links: dict[str, str] = {}
    view = memoryview(plain)
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            count = 0
            while (member := archive.next()) is not None:
                # Else it keeps a kilobyte of each.
                archive.members.clear()  # type: ignore[attr-defined] # typeshed leaves it out
                if count == MEMBERS_MAX:
                    raise DiscoveryError(source, f"more than {MEMBERS_MAX} members", "fewer")
                count += 1
                _add(member, view, files, links, source)
    except _DAMAGE as exc:
        raise DiscoveryError(
            source, f"a damaged tar archive ({exc})", "a whole one", "Fetch or make it again."
        ) from exc
    _refuse_folders((*files, *links), source)
    return files, links


def _refuse_folders(names: Iterable[str], source: str) -> None:
    """Each folder is remembered by its whole path, so that many deep ones would fill the memory."""
    folders: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
        if len(folders) > FOLDERS_MAX:
            raise DiscoveryError(source, f"more than {FOLDERS_MAX} folders", "fewer")


def _add(
    member: tarfile.TarInfo,
    view: memoryview,
    files: dict[str, memoryview],
    links: dict[str, str],
    source: str,
) -> None:
    name = _inside(member.name, source)
    if member.issym():
        if len(member.linkname) > NAME_LENGTH_MAX:
            raise DiscoveryError(source, f"a link of {len(member.linkname)} characters", "a path")
        linked_path(source, name, member.linkname)
        links[name] = member.linkname
    elif member.islnk():
        target = files.get(_inside(member.linkname, source))
        if target is not None:
            files[name] = target
    elif member.isreg() and not member.issparse():
        files[name] = _content(member, view, source)


def _content(member: tarfile.TarInfo, view: memoryview, source: str) -> memoryview:
    if not 0 <= member.size <= FILE_BYTES_MAX:
        raise DiscoveryError(
            source, f"{member.size} bytes in {member.name[:200]}", f"at most {FILE_BYTES_MAX}"
        )
    content = view[member.offset_data : member.offset_data + member.size]
    if len(content) != member.size:
        raise tarfile.ReadError("it ends early")
    return content


def _inside(name: str, source: str) -> str:
    if len(name) > NAME_LENGTH_MAX or name.count("/") > STEPS_MAX:
        raise DiscoveryError(
            source,
            f"the name {name[:60]!r}... of {len(name)} characters",
            f"at most {NAME_LENGTH_MAX}, and {STEPS_MAX} folders",
        )
    steps = [step for step in name.split("/") if step not in ("", ".")]
    if name.startswith("/") or ".." in steps:
        raise DiscoveryError(
            source,
            f"the member {name}, which climbs out of the archive",
            "names that stay inside",
            "Make the archive again with relative names.",
        )
    return "/".join(steps)


def _root(files: dict[str, memoryview], source: str) -> str:
    """The folder that the machine's files start in: nothing, or one name with its slash."""
    roots = set()
    for path in files:
        if path.startswith(f"{_CPU_DIRECTORY}/"):
            return ""
        first, _, rest = path.partition("/")
        if rest.startswith(f"{_CPU_DIRECTORY}/"):
            roots.add(f"{first}/")
    if len(roots) == 1:
        return roots.pop()
    found = f"{len(roots)} machines ({', '.join(sorted(roots))})" if roots else "none of its files"
    raise DiscoveryError(
        source,
        found,
        f"{_CPU_DIRECTORY} of one machine, at the root of the archive or one folder down",
        "Pack sys/devices/system, sys/bus/pci, sys/devices/pci* and proc/meminfo.",
    )


def _under(root: str, paths: Mapping[str, T]) -> dict[str, T]:
    return {path[len(root) :]: what for path, what in paths.items() if path.startswith(root)}


def _has_old_header(data: bytes) -> bool:
    """Whether the first block carries its own checksum, as archives before ustar do too."""
    block = data[:512]
    if len(block) < 512:
        return False
    try:
        stored = int(block[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    return stored == sum(block[:148]) + 8 * 0x20 + sum(block[156:])
