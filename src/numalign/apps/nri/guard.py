"""Two cannot place the same containers: refuses to run beside the kubelet's own static managers.

The kubelet would write its own CPU sets over ours every few seconds. Looked at are its
configuration file, its state files, and what it offers over PodResources: only a static manager has
CPUs or memory to give. That says what it really runs with, flags and all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from numalign.adapters.local.files import read_small
from numalign.apps.nri.steps.managers import WHAT_TO_DO
from numalign.core.errors import ConfigError, WireError
from numalign.wire import yaml as plain_yaml
from numalign.wire.checkpoints import state_files
from numalign.wire.faults import DECODE_FAULTS

BYTES_MAX: Final = 4 << 20
# In the file of configuration, and in the state file.
_MANAGERS: Final = (
    ("cpuManagerPolicy", "none", state_files.CPU),
    ("memoryManagerPolicy", "None", state_files.MEMORY),
)
_TOPOLOGY: Final = "topologyManagerPolicy"


class _State(msgspec.Struct):
    policy: str = msgspec.field(name="policyName", default="")


def check_kubelet(config: Path, directory: Path) -> list[str]:
    """ConfigError if the kubelet has static managers; otherwise what could not be looked at."""
    notes: list[str] = []
    chosen = _configured(config, notes)
    for key, none, place in _MANAGERS:
        policy = chosen.get(key, none)
        if policy != none:
            raise ConfigError(f"{config}: found {key}: {policy}. {WHAT_TO_DO}")
        held = _saved_policy(directory / place)
        if held not in {"", none}:
            raise ConfigError(
                f"{directory / place}: found the state of policy {held}: the kubelet still runs "
                f"with it. {WHAT_TO_DO}"
            )
    topology = chosen.get(_TOPOLOGY, "none")
    if topology != "none":
        notes.append(
            f"{config}: {_TOPOLOGY} is {topology}: the kubelet goes on refusing pods whose devices "
            "it cannot align"
        )
    return notes


def _configured(path: Path, notes: list[str]) -> dict[str, object]:
    data = read_small(path, BYTES_MAX)
    if data is None:
        notes.append(
            f"{path}: there is no such file; whether the kubelet has static managers is only "
            "known from its state files. Name its configuration with --kubelet-config."
        )
        return {}
    try:
        found = plain_yaml.load(data)
    except WireError as error:
        raise ConfigError(f"{path}: {error}") from error
    return dict(found) if isinstance(found, dict) else {}


def _saved_policy(path: Path) -> str:
    data = read_small(path, BYTES_MAX)
    if data is None:
        return ""
    try:
        return msgspec.json.decode(data, type=_State).policy
    except DECODE_FAULTS as error:
        raise ConfigError(
            f"{path}: cannot be read as the kubelet's state ({error}); whether it has static "
            "managers is not known. Remove it if the kubelet's policy is none."
        ) from error
