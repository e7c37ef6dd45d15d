"""Which pods are meant: words as kubectl takes them, TYPE NAME, TYPE/NAME or a bare NAME.

A workload (deploy/web) stands for the pods that it owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numalign.core.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient

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


@dataclass(frozen=True, slots=True)
class Target:
    """Pods of one kind: the pod of a name, or those of a workload; without a name, all."""

    kind: str = POD
    name: str | None = None

    @property
    def title(self) -> str:
        return f"{self.kind.lower()}/{self.name}" if self.name else f"{self.kind.lower()}s"

    def is_met_by(self, pod: Mapping[str, Any]) -> bool:
        if self.kind == POD:
            return self.name in {None, pod["metadata"]["name"]}
        kind, _, name = owner_text(pod).partition("/")
        return kind == self.kind and self.name in {None, name}


def owner_text(pod: Mapping[str, Any]) -> str:
    """The workload of a pod, such as Deployment/web; empty for one that stands alone."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((f"{o['kind']}/{o['name']}" for o in owners if o.get("controller")), "")


def targets_of(words: Sequence[str], kinds: Mapping[str, str] = KINDS) -> list[Target]:
    """What words mean: TYPE [NAME...], TYPE/NAME..., or bare names of pods."""
    if not words:
        return []
    if any("/" in word for word in words):
        return [_slashed(word, words, kinds) for word in words]
    first = kinds.get(words[0].lower())
    if first is None:
        return [Target(POD, word) for word in words]
    return [Target(first, word) for word in words[1:]] or [Target(first)]


def _slashed(word: str, words: Sequence[str], kinds: Mapping[str, str]) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        raise ConfigError(f"found {' '.join(words)!r}, expected TYPE/NAME for each, or TYPE NAME.")
    if kind.lower() not in kinds:
        known = ", ".join(dict.fromkeys(k.lower() for k in kinds.values()))
        raise ConfigError(f"{word}: found the type {kind!r}, expected one of {known}.")
    if not name or "/" in name:
        raise ConfigError(f"{word}: found no name, expected TYPE/NAME such as pod/web.")
    return Target(kinds[kind.lower()], name)


def pods_of(agent: AgentClient, namespace: str | None) -> list[dict[str, Any]]:
    """The agent's pods, of one namespace or of all."""
    query = {} if namespace is None else {"namespace": namespace}
    found: list[dict[str, Any]] = agent.get("/pods", **query)["items"]
    return found


def chosen(pods: Iterable[Mapping[str, Any]], targets: Sequence[Target]) -> list[Any]:
    """The pods that one of the targets means; all if there is no target."""
    return [pod for pod in pods if not targets or any(t.is_met_by(pod) for t in targets)]


def the_one(agent: AgentClient, words: Sequence[str], namespace: str | None) -> Any:  # noqa: ANN401
    """The one pod that words mean; PeerError if there is none, or several."""
    targets = targets_of(words)
    if len(targets) != 1 or targets[0].name is None:
        raise ConfigError(f"found {' '.join(words)!r}, expected one pod, such as pod/web.")
    [target] = targets
    if target.kind == POD:
        return agent.pod_named(str(target.name), namespace)
    found = chosen(pods_of(agent, namespace), targets)
    if not found:
        raise PeerError(f"found no pod of {target.title}. See 'numalign get pods -o wide'.")
    return found[0]
