"""How the kubelet of a host was started, from the table of processes; it is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROCESSES_MAX: Final = 100_000
ARGUMENTS_BYTES_MAX: Final = 256 * 1024
NAMES: Final = frozenset({"kubelet"})


def kubelet_arguments(root: Path = Path("/")) -> tuple[str, ...] | None:
    """The arguments of the kubelet that runs, None if there is none or they cannot be seen."""
    try:
        found = sorted(int(p.name) for p in (root / "proc").iterdir() if p.name.isdecimal())
    except OSError:
        return None
    for pid in found[:PROCESSES_MAX]:
        directory = root / "proc" / str(pid)
        try:
            if (directory / "comm").read_text(errors="replace").strip() not in NAMES:
                continue
            with (directory / "cmdline").open("rb") as file:
                data = file.read(ARGUMENTS_BYTES_MAX)
        except OSError:
            continue  # it has ended meanwhile
        words = data.decode(errors="replace").split("\0")
        return tuple(word for word in words[1:] if word)
    return None


def pod_names(directory: Path) -> dict[str, str]:
    """The pods that have logs on this host: uid -> namespace/name, from the names alone."""
    try:
        names = sorted(p.name for p in directory.iterdir())
    except OSError:
        return {}
    found = {}
    for name in names[:PROCESSES_MAX]:
        parts = name.split("_")
        if len(parts) == 3 and all(parts):
            found[parts[2]] = f"{parts[0]}/{parts[1]}"
    return found
