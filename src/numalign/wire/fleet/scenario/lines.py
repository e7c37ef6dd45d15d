"""On which line of a YAML text each value stands."""

from __future__ import annotations

import re
from typing import Final

import yaml

_PART: Final = re.compile(r"\.([A-Za-z0-9_]+)|\[(\d+)\]|\[\.\.\.\]|\[`([^`]*)`\]")

Path = tuple[str | int, ...]


def lines_of(text: str) -> dict[Path, int]:
    """The line of each value by its path; of a member, the line of its key."""
    found: dict[Path, int] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    root = yaml.compose(text, Loader=loader)
    pending: list[tuple[Path, yaml.Node]] = [] if root is None else [((), root)]
    while pending:
        path, node = pending.pop()
        found.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                found[inner] = key.start_mark.line + 1
                pending.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            pending += [((*path, i), value) for i, value in enumerate(node.value)]
    return found


def path_of(text: str) -> Path:
    """The path that a message of msgspec names, such as $.hosts[0].count."""
    parts: list[str | int] = []
    for name, index, key in _PART.findall(text):
        if name or key:
            parts.append(name or key)
        elif index:
            parts.append(int(index))
    return tuple(parts)


def nearest(lines: dict[Path, int], path: Path) -> int:
    """The line of the value, or of the closest one around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
