"""Changes of a few keys of a KubeletConfiguration: as a drop-in, or in the text of a file.

A drop-in (a file of the kubelet's --config-dir) is laid over the main file as a JSON merge patch:
maps are merged, lists and single values are replaced, and null takes a member away.

In a file only the changed keys are written anew, in place. Everything else, order and comments
included, stays as it is, but for comments inside a value that changes. A file in JSON is written
anew, in its order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from numalign.core.errors import WireError
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet.config import API_VERSION, KIND
from numalign.wire.kubelet.keys import KEYS, KubeletConfig

# The keys that an advice is about.
ADVISED: Final = (
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "memoryManagerPolicy",
    "reservedMemory",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "reservedSystemCPUs",
)
_MAPS: Final = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions")

Members = Mapping[str, Any]


def advised_values(config: KubeletConfig) -> dict[str, Any]:
    """The advised keys with the values that they have in a file."""
    keys = {key.name: key for key in KEYS}
    return {name: keys[name].kind.write(getattr(config, keys[name].member)) for name in ADVISED}


def drop_in(before: KubeletConfig, after: KubeletConfig) -> dict[str, Any]:
    """A drop-in that makes of ``before`` what ``after`` says of the advised keys."""
    old, new = advised_values(before), advised_values(after)
    for name in _MAPS:
        new[name] = {**dict.fromkeys(sorted(old[name])), **new[name]}
    kept = {name: value for name, value in new.items() if value or old[name]}
    return {"apiVersion": API_VERSION, "kind": KIND, **kept}


def merged(document: Members, patch: Members) -> dict[str, Any]:
    """What the kubelet makes of a file and a drop-in (RFC 7396)."""
    found = dict(document)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            inner = found.get(key)
            found[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def edited(data: bytes, after: KubeletConfig) -> bytes:
    """A file with the advised keys changed to these values; WireError if it cannot be read."""
    content = plain_yaml.load(data)
    if not isinstance(content, dict):
        raise WireError("found no map, expected a KubeletConfiguration")
    usual = advised_values(KubeletConfig())
    changes = {
        name: value or None  # what is empty goes
        for name, value in advised_values(after).items()
        if value != (content.get(name) or usual[name])
    }
    if not changes:
        return data
    text = data.decode()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        rest = {key: value for key, value in {**content, **changes}.items() if value is not None}
        return (json.dumps(rest, indent=2, ensure_ascii=False) + "\n").encode()
    return _replaced(text, root, changes).encode()


def _replaced(text: str, root: yaml.MappingNode, changes: Members) -> str:
    """The text with these members of its outermost map written anew, from the last to the first."""
    places = {
        key.value: (key.start_mark.index, _end(text, key, value)) for key, value in root.value
    }
    new = {key: value for key, value in changes.items() if key not in places and value is not None}
    indent = root.start_mark.column
    for key, (start, end) in sorted(places.items(), key=lambda item: -item[1][0]):
        if key not in changes:
            continue
        if changes[key] is None:
            first, last = _whole_lines(text, start, end)
            text = text[:first] + text[last:]
        else:
            text = text[:start] + _written(key, changes[key], indent) + text[end:]
    if new:
        if not text.endswith("\n"):
            text += "\n"
        lines = [" " * indent + _written(key, value, indent) + "\n" for key, value in new.items()]
        at = _insertion(text)
        text = text[:at] + "".join(lines) + text[at:]
    return text


def _end(text: str, key: yaml.Node, value: yaml.Node) -> int:
    """Where a value ends. That of a block reaches up to the next token, past comments."""
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end(text, *last) if isinstance(last, tuple) else _end(text, last, last)
    end = int(value.end_mark.index)
    if isinstance(value, yaml.ScalarNode) and value.style in {"|", ">"}:
        return len(text[:end].rstrip())
    if end <= key.end_mark.index and value is not key:  # nothing is there, but for the colon
        return text.index(":", key.end_mark.index) + 1
    return end


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    newline = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if newline < 0 else newline + 1


def _insertion(text: str) -> int:
    """Before the mark that ends the document, if there is one."""
    for mark in ("\n...", "\n---"):
        at = text.rfind(mark)
        if at >= 0 and not text[at + len(mark) :].strip():
            return at + 1
    return len(text)


def _written(key: str, value: object, indent: int) -> str:
    lines = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True).rstrip("\n")
    return lines.replace("\n", "\n" + " " * indent)
