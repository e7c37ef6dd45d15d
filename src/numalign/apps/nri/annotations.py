"""What a pod can choose by annotation, checked: one wrong word refuses it, with a sentence.

A choice that is passed over silently is a promise broken silently: unknown names and choices that
contradict each other are refused as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.errors import WireError
from numalign.core.kubelet.topology.policy import POLICIES
from numalign.wire.nri import pod_facts
from numalign.wire.nri.pod_facts import DeclaredPod
from numalign.wire.nri.values import MemoryMode

PREFIX: Final = "numalign.io/"
POLICY: Final = "numalign.io/policy"
SCOPE: Final = "numalign.io/scope"
EXCLUSIVE: Final = "numalign.io/exclusive"
FULL_CORES: Final = "numalign.io/full-cores"
MEMORY: Final = "numalign.io/memory"
CONTAINERS: Final = "numalign.io/containers"  # written by our admission policy, not by people
CHOICES: Final = (POLICY, SCOPE, EXCLUSIVE, FULL_CORES, MEMORY)
NO_CONTAINER: Final = "none"
# Those of our other commands: they mean something elsewhere.
_OTHERS: Final = (
    "avoided-hosts",
    "host-network",
    "memory-policy",
    "placement",
    "recreate",
    "redeploy",
    "run",  # and run-without-nri, for the runtime's validator
    "topology-policy",
)
_POLICY_NAMES: Final = ("none", *sorted(POLICIES))


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What one pod has chosen; None: what the host file says."""

    policy: str | None = None
    scope: str | None = None
    exclusive: frozenset[str] | None = None  # the containers with CPUs of their own
    full_cores: bool | None = None
    memory: MemoryMode | None = None
    declared: DeclaredPod | None = None


class ChoiceError(Exception):
    """A choice that cannot be followed; the sentence names the annotation."""


def chosen(annotations: Mapping[str, str], namespace: str, allowed: Iterable[str]) -> PodOptions:
    """The choices of a pod; ChoiceError with the sentence that refuses it."""
    ours = {key: text for key, text in annotations.items() if key.startswith(PREFIX)}
    for key in sorted(ours):
        _check_known(key)
    used = [key for key in CHOICES if key in ours]
    if used and not _is_allowed(namespace, allowed):
        raise ChoiceError(
            f"annotation {used[0]}: pods of namespace {namespace} may not use it; the host file "
            "names those that may (numalign.annotationNamespaces)"
        )
    options = PodOptions(
        _one_of(ours, POLICY, _POLICY_NAMES),
        _one_of(ours, SCOPE, ("container", "pod")),
        _names(ours),
        _boolean(ours),
        _mode(ours),
        _declared(ours),
    )
    _check_together(options)
    return options


def _check_known(key: str) -> None:
    name = key.removeprefix(PREFIX)
    if key in CHOICES or key == CONTAINERS or name.startswith(_OTHERS):
        return
    raise ChoiceError(f"annotation {key[:200]}: unknown, expected one of {', '.join(CHOICES)}")


def _is_allowed(namespace: str, allowed: Iterable[str]) -> bool:
    return any(
        namespace.startswith(one[:-1]) if one.endswith("*") else namespace == one for one in allowed
    )


def _one_of(ours: Mapping[str, str], key: str, words: tuple[str, ...]) -> str | None:
    text = ours.get(key)
    if text is None or text in words:
        return text
    raise ChoiceError(f"annotation {key}: found {text[:80]!r}, expected {' or '.join(words)}")


def _names(ours: Mapping[str, str]) -> frozenset[str] | None:
    text = ours.get(EXCLUSIVE)
    if text is None:
        return None
    if text == NO_CONTAINER:
        return frozenset()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ChoiceError(
            f"annotation {EXCLUSIVE}: found {text[:80]!r}, expected names of containers with "
            f"commas between, or {NO_CONTAINER}"
        )
    return frozenset(names)


def _boolean(ours: Mapping[str, str]) -> bool | None:
    text = _one_of(ours, FULL_CORES, ("true", "false"))
    return None if text is None else text == "true"


def _mode(ours: Mapping[str, str]) -> MemoryMode | None:
    text = _one_of(ours, MEMORY, tuple(MemoryMode))
    return None if text is None else MemoryMode(text)


def _declared(ours: Mapping[str, str]) -> DeclaredPod | None:
    text = ours.get(CONTAINERS)
    if text is None:
        return None
    try:
        return pod_facts.declared(text)
    except WireError as error:
        raise ChoiceError(f"annotation {CONTAINERS}: {error}") from error


def _check_together(options: PodOptions) -> None:
    if options.policy == "none" and options.scope is not None:
        raise ChoiceError(f"annotations {POLICY} and {SCOPE}: policy none has no scope")
    if options.exclusive == frozenset() and options.full_cores:
        raise ChoiceError(
            f"annotations {EXCLUSIVE} and {FULL_CORES}: without CPUs of its own no container can "
            "have whole cores"
        )
    if options.exclusive == frozenset() and options.memory is not None:
        raise ChoiceError(
            f"annotations {EXCLUSIVE} and {MEMORY}: memory follows CPUs of its own, and no "
            "container has any"
        )
    if options.exclusive and options.declared is not None:
        declared = options.declared
        names = {c.name for c in (*declared.init_containers, *declared.containers)}
        unknown = sorted(options.exclusive - names)
        if unknown:
            raise ChoiceError(
                f"annotation {EXCLUSIVE}: found no container {unknown[0]!r}, expected some of "
                f"{', '.join(sorted(names))}"
            )
