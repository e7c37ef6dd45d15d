"""ConfigMaps and Secrets as files: ``DIRECTORY/configmaps/NAMESPACE/NAME/KEY``, ``secrets/`` alike.

Only the owner of the directory may write in it; who asked for a pod gets what it may read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import read_bounded, reason_of
from numalign.core.asker import Asker
from numalign.core.errors import PostponedError

CONFIG_MAPS: Final = "configmaps"
SECRETS: Final = "secrets"
BYTES_MAX: Final = 1024 * 1024  # of all keys together, as in the API server
NOT_READY: Final = "CreateContainerConfigError"


@dataclass(frozen=True, slots=True)
class Objects:
    root: Path | None

    def keys(self, kind: str, namespace: str, name: str, asker: Asker) -> dict[str, bytes] | None:
        """The keys of an object with their values; None if there is none of that name."""
        what = f"{kind} {namespace}/{name}"
        if self.root is None:
            raise _refused(f"{what}: found no source of it; start the agent with --objects-dir")
        if not _is_plain(namespace) or not _is_plain(name):
            raise _refused(f"{what}: found no name of an object")
        place = self.root / kind / namespace / name
        if not place.is_dir():
            return None
        found: dict[str, bytes] = {}
        try:
            _check_readable(self.root, place, asker)
            for path in sorted(place.iterdir()):
                if path.name.startswith(".") or not path.is_file():
                    continue
                _check_readable(place, path, asker)
                found[path.name] = read_bounded(path, BYTES_MAX)
                if sum(map(len, found.values())) > BYTES_MAX:
                    raise _refused(f"{what}: found more than {BYTES_MAX} bytes")
        except OSError as error:
            raise _refused(f"{what}: {error.filename}: {reason_of(error)}") from error
        return found


def _is_plain(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")


def _check_readable(above: Path, path: Path, asker: Asker) -> None:
    """Refuses what the asker could not read itself. Nobody else can change it meanwhile."""
    parts = [*reversed([p for p in path.parents if p == above or above in p.parents]), path]
    for part in parts:
        found = part.stat()
        is_file = stat.S_ISREG(found.st_mode)
        wanted = stat.S_IROTH if is_file else stat.S_IXOTH
        if found.st_mode & 0o022:
            raise PermissionError(1, "others can write it; chmod go-w", str(part))
        if found.st_uid not in {0, os.geteuid()}:
            raise PermissionError(1, "found another owner than root", str(part))
        if not asker.is_root and not _allows(found, asker, wanted):
            raise PermissionError(13, f"user {asker.uid} may not read it", str(part))


def _allows(found: os.stat_result, asker: Asker, others: int) -> bool:
    if found.st_uid == asker.uid:
        return bool(found.st_mode & others << 6)
    if asker.has_group(found.st_gid):
        return bool(found.st_mode & others << 3)
    return bool(found.st_mode & others)


def _refused(text: str) -> PostponedError:
    return PostponedError(text, reason=NOT_READY)
