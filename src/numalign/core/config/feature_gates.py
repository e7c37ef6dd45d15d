"""The kubelet's feature gates: which exist, what they are by default, what may be set.

``AllAlpha`` and ``AllBeta`` set all gates of a stage that are not set by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from numalign.core.config import gates_1_36, gates_1_37
from numalign.core.settings import Version


@dataclass(frozen=True, slots=True)
class Gate:
    default: bool
    stage: str  # alpha, beta, ga, deprecated or locked

    @property
    def is_locked(self) -> bool:
        """Whether it can only be set to what it is anyway."""
        return self.stage == "locked"


_STAGES = {"AllAlpha": "alpha", "AllBeta": "beta"}


def _tables(version: Version) -> ModuleType:
    return gates_1_36 if version is Version.V1_36 else gates_1_37


@cache
def gates(version: Version) -> Mapping[str, Gate]:
    known = {}
    for kind, names in _tables(version).GATES.items():
        stage, _, default = kind.partition(" ")
        known.update(dict.fromkeys(names.split(), Gate(default == "on", stage)))
    return known


def faults(chosen: Mapping[str, bool], version: Version) -> list[str]:
    """What the kubelet says against a choice of gates, one line each, sorted."""
    known = gates(version)
    found = []
    for name, value in sorted(chosen.items()):
        gate = known.get(name)
        if gate is None and name not in _STAGES:
            found.append(f"unrecognized feature gate: {name}")
        elif gate is not None and gate.is_locked and value != gate.default:
            found.append(
                f"cannot set feature gate {name} to {_go(value)}, "
                f"feature is locked to {_go(gate.default)}"
            )
    return found or _missing_dependencies(effective(chosen, version), version)


def effective(chosen: Mapping[str, bool], version: Version) -> dict[str, bool]:
    """The value of every gate after a choice that has no faults."""
    values = {}
    for name, gate in gates(version).items():
        value = gate.default
        for everything, stage in _STAGES.items():
            if gate.stage == stage and everything in chosen:
                value = chosen[everything]
        values[name] = chosen.get(name, value)
    return values


def _missing_dependencies(values: Mapping[str, bool], version: Version) -> list[str]:
    found = []
    for name, needed in sorted(_tables(version).DEPENDENCIES.items()):
        missing = [other for other in needed if not values[other]]
        if values[name] and missing:
            found.append(
                f"{name} is enabled, but depends on features that are disabled: "
                f"[{', '.join(missing)}]"
            )
    return found


def _go(value: bool) -> str:  # noqa: FBT001 - the value is what is shown
    return "true" if value else "false"
