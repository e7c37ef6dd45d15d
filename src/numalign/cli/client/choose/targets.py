"""Which pods are meant: words as kubectl takes them, TYPE NAME, TYPE/NAME or a bare NAME.

A workload (deploy/web) stands for the pods that it owns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numalign.core.errors import ConfigError

POD: Final = "Pod"
_SHORT: Final = {
    POD: "po",
    "Deployment": "deploy",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "Job": "",
    "CronJob": "cj",
}
# What users type for each kind, such as po, pod and pods.
KINDS: Final = {
    word: kind
    for kind, short in _SHORT.items()
    for word in (short, kind.lower(), f"{kind.lower()}s")
    if word
}
TYPES: Final = ", ".join(short or kind.lower() for kind, short in _SHORT.items())


@dataclass(frozen=True, slots=True)
class Target:
    """Pods of one kind: the pod of a name, or those of a workload; without a name, all."""

    kind: str = POD
    name: str | None = None

    @property
    def title(self) -> str:
        return f"{self.kind.lower()}/{self.name}" if self.name else f"{self.kind.lower()}s"

    @property
    def is_one_pod(self) -> bool:
        return self.kind == POD and self.name is not None

    def is_met_by(self, pod: Mapping[str, Any]) -> bool:
        if self.kind == POD:
            return self.name in {None, pod["metadata"]["name"]}
        kind, _, name = owner_text(pod).partition("/")
        return kind == self.kind and self.name in {None, name}


def owner_text(pod: Mapping[str, Any]) -> str:
    """The workload of a pod, such as Deployment/web; empty for one that stands alone."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((f"{o['kind']}/{o['name']}" for o in owners if o.get("controller")), "")


def targets_of(words: Sequence[str]) -> list[Target]:
    """What words mean: TYPE [NAME...], TYPE/NAME..., or bare names of pods."""
    if any("/" in word for word in words):
        return [_slashed(word, words) for word in words]
    first = KINDS.get(words[0].lower()) if words else None
    if first is None:
        return [Target(POD, word) for word in words]
    return [Target(first, word) for word in words[1:]] or [Target(first)]


def _slashed(word: str, words: Sequence[str]) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        raise ConfigError(f"found {' '.join(words)!r}, expected TYPE/NAME for each, or TYPE NAME.")
    if kind.lower() not in KINDS:
        raise ConfigError(f"{word}: found the type {kind!r}, expected one of {TYPES}.")
    if not name or "/" in name:
        raise ConfigError(f"{word}: found no name, expected TYPE/NAME such as pod/web.")
    return Target(KINDS[kind.lower()], name)


def missing(pods: Sequence[Mapping[str, Any]], targets: Sequence[Target]) -> list[Target]:
    """The named targets that no pod meets."""
    return [t for t in targets if t.name is not None and not any(map(t.is_met_by, pods))]
