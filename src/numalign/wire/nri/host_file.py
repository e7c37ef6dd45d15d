"""The host file of the plugin: a KubeletConfiguration with the keys that operators know.

One more key, ``numalign``, holds what no kubelet has. Everything else is read and checked exactly
as the kubelet's own file, so that a host can be moved by copying it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from numalign.core.errors import ConfigError, WireError
from numalign.core.settings import Version
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import KubeletConfig

KEY: Final = "numalign"
_NAMESPACES: Final = "annotationNamespaces"
EVERYWHERE: Final = "*"


@dataclass(frozen=True, slots=True)
class HostFile:
    kubelet: KubeletConfig
    namespaces: tuple[str, ...] = (EVERYWHERE,)  # whose pods may choose by annotation


def load(data: bytes | str, *, version: Version = Version.V1_36) -> HostFile:
    """The content of the file; ConfigError with one line for each fault."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    try:
        content = plain_yaml.load(raw)
    except WireError:
        content = None  # refused below, with the words for every such file
    ours: Any = None
    if isinstance(content, dict) and KEY in content:
        ours = content.pop(KEY)
        raw = json.dumps(content).encode()
    return HostFile(kubelet_config.load(raw, version=version), _namespaces(ours))


def _namespaces(ours: object) -> tuple[str, ...]:
    if ours is None:
        return (EVERYWHERE,)
    if not isinstance(ours, dict):
        raise ConfigError(f"{KEY}: expected a map with {_NAMESPACES}")
    unknown = sorted(str(key) for key in ours if key != _NAMESPACES)
    if unknown:
        raise ConfigError(f"{KEY}: unknown field {unknown[0]!r}, expected {_NAMESPACES}")
    found = ours.get(_NAMESPACES, [EVERYWHERE])
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ConfigError(
            f"{KEY}.{_NAMESPACES}: expected a list of namespaces; a name that ends in * stands for "
            "all that begin so, an empty list for none"
        )
    return tuple(found)
