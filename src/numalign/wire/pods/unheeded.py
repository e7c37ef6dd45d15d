"""Which members of a manifest are not carried out, found by the table of ``fields``.

A record keeps their paths, such as ``spec.containers[web].tty``; what is said of them depends on
the runtime, so it is looked up when it is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from numalign.wire.pods.fields import TABLE, Care, Treatment, field_at

PATHS_MAX: Final = 100
PATH_CHARS_MAX: Final = 200
# What the API server adds to every pod: a token for an API server that is not here.
TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105 - the beginning of a name
_IMAGE: Final = "image"  # told in a line of its own, see views/pods.py
_FINE: Final = frozenset({Care.DONE, Care.WRITTEN})
_UNKNOWN: Final = Treatment(Care.TOLD, "unknown to Kubernetes 1.37; check the spelling")
_INDEX: Final = re.compile(r"\[[^]]*\]")
_PARENTS: Final = frozenset(
    field.path[:end].replace("container", name, 1)
    if field.path.startswith("container")
    else field.path[:end]
    for field in TABLE
    for end in (m.start() for m in re.finditer(r"\.|\[", field.path))
    for name in ("spec.containers[]", "spec.initContainers[]")
)


def paths_of(document: Mapping[str, Any]) -> list[str]:
    """The paths of what at least one runtime does not carry out, as far as they are kept."""
    found: list[str] = []
    for path in _walk(document, ""):
        if len(found) >= PATHS_MAX:
            break
        if not _is_said(path, found):
            found.append(path[:PATH_CHARS_MAX])
    return found


def _is_said(path: str, found: list[str]) -> bool:
    """Whether the row of a path was told of something above it already."""
    row = field_at(_INDEX.sub("[]", path))
    return any(
        path.startswith(f"{above}.") and field_at(_INDEX.sub("[]", above)) is row for above in found
    )


def _walk(value: Any, path: str) -> Iterator[str]:  # noqa: ANN401 any YAML
    plain = _INDEX.sub("[]", path)
    if value is None or value in ([], {}):
        return
    row = field_at(plain) if path else None
    is_parent = not path or plain in _PARENTS or f"{plain}[]" in _PARENTS
    if row is not None and value in row.asks_nothing:
        return
    if isinstance(value, Mapping) and is_parent:
        if row is not None and row.path.endswith(plain.rpartition(".")[2]) and _lacks(plain):
            yield path
        for name, member in value.items():
            yield from _walk(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and is_parent:
        for number, item in enumerate(value):
            name = item.get("name", number) if isinstance(item, Mapping) else number
            yield from _walk(item, f"{path}[{_name(name)}]")
    elif _lacks(plain):
        yield path


def _name(name: object) -> str:
    return re.sub(r"[\[\].]", "_", str(name)) or "_"


def _lacks(plain: str) -> bool:
    row = field_at(plain)
    return row is None or row.process.care not in _FINE or row.cri.care not in _FINE


def treatment_of(path: str, *, is_cri: bool) -> Treatment:
    """What becomes of a member that was found."""
    row = field_at(_INDEX.sub("[]", path))
    if row is None:
        return _UNKNOWN
    found = row.cri if is_cri else row.process
    if f"[{TOKEN_VOLUME}" in path:
        return Treatment(Care.TOLD, "there is no API server behind the agent, so no token")
    return found


def told(paths: Iterable[str] | None, *, is_cri: bool) -> list[str]:
    """What is not carried out and not refused, one line each."""
    return [
        f"{path}: {treatment.text}"
        for path in paths or ()
        if (treatment := treatment_of(path, is_cri=is_cri)).care is Care.TOLD
        and path.rpartition(".")[2] != _IMAGE
    ]


def refused(paths: Iterable[str] | None, *, is_cri: bool) -> list[str]:
    """What a pod is refused for, one text each."""
    return [
        f"{path}: {treatment.text}; remove it"
        for path in paths or ()
        if (treatment := treatment_of(path, is_cri=is_cri)).care is Care.REFUSED
    ]
