"""Where machines come from: one word from the operator, one Machine.

host, or nothing      the running host
a directory           a root with sys/ in it (or one folder down)
a file                a tar capture, an hwloc XML export, cAdvisor's JSON, our own YAML or
                      JSON; told apart by content, packed with xz, gzip, bzip2 or not at all
a name                a built-in example
2s:1n:16c:2t,...      a synthetic machine, see ``core.synthetic``
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numalign.adapters.sources.filetree import DirTree, FileTree
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import Machine
from numalign.core.machine.synthetic_plan import looks_synthetic

if TYPE_CHECKING:
    from numalign.core.machine.examples.catalogue import Example

HOST: Final = "host"


def discover(source: str | None, *, root: Path = Path("/")) -> Machine:
    """The machine that a source describes; DiscoveryError where it describes none."""
    if source is None or source == HOST:
        return _from_tree(DirTree(root))
    path = Path(source)
    if source and _is_directory(path):
        if exists(path / "capture.json"):
            return _from_bundle(path)
        return _from_tree(DirTree(_capture_root(path)), path.resolve().name)
    if source and exists(path):
        return _from_file(path)
    if looks_synthetic(source):
        from numalign.core.machine.synthetic import synthetic_machine  # noqa: PLC0415

        return synthetic_machine(source)
    if source in _examples():
        return _examples()[source].machine()
    raise DiscoveryError(
        f"machine {source[:200]!r}",
        "no file, directory or example of this name, nor a text such as 2s:1n:16c:2t",
        "one of them, or host",
        f"The examples are {', '.join(sorted(_examples()))}.",
    )


# Each kind of source has decoders of its own, which the others should not wait for.


def _from_tree(tree: FileTree, name: str = "") -> Machine:
    from numalign.adapters.sources.sysfs.sysfs import read_machine  # noqa: PLC0415

    return read_machine(tree, name)


def _from_file(path: Path) -> Machine:
    from numalign.adapters.sources.machine_files import machine_from_file  # noqa: PLC0415

    return machine_from_file(path)


def _from_bundle(path: Path) -> Machine:
    from numalign.adapters.sources.bundles import machine_of, read_bundle  # noqa: PLC0415

    return machine_of(read_bundle(path), str(path))


def _examples() -> Mapping[str, Example]:
    from numalign.core.machine.examples.catalogue import EXAMPLES  # noqa: PLC0415 - rarely needed

    return EXAMPLES


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False  # a text that no file can be named by


def exists(path: Path) -> bool:
    """Whether there is such a file; False too for a text that no file can be named by."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _capture_root(path: Path) -> Path:
    """The directory itself or the one folder in it that holds sys/."""
    inner = [name for name in DirTree(path).names("") if _is_directory(path / name / "sys")]
    return path / inner[0] if len(inner) == 1 and not exists(path / "sys") else path
