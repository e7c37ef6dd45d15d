"""The options that say which host is meant, shared by all commands that ask about one."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from numalign.cli.options import MachineOption
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.snapshots import Evidence, Loaded
    from numalign.wire.pods.records import PodRecord

E = TypeVar("E", bound=StrEnum)

__all__ = [
    "FidelityOption",
    "KubeletConfigOption",
    "KubernetesOption",
    "MachineOption",
    "OnOption",
    "PodsOption",
    "StateOption",
    "chosen",
    "evidence",
    "loaded",
    "running",
    "tell",
]

OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="SRC",
        show_default=False,
        help=(
            "Which host: host (this one, the default), a bundle of 'numalign capture', an agent's "
            "URL (http://127.0.0.1:8421 or unix:///PATH), or any machine as for --machine."
        ),
    ),
]
KubeletConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubelet-config",
        metavar="FILE",
        show_default=False,
        help="A KubeletConfiguration (or an AgentConfiguration) in place of the host's own.",
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        show_default=False,
        help="A directory with the kubelet's state files, such as /var/lib/kubelet.",
    ),
]
PodsOption = Annotated[
    Path | None,
    typer.Option(
        "--pods",
        metavar="FILE",
        show_default=False,
        help="The running pods: the output of 'kubectl get pods -A -o json', or a directory of "
        "static manifests.",
    ),
]
KubernetesOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        metavar="VERSION",
        show_default=False,
        help="Decide as 1.36 (the default) or 1.37 does.",
    ),
]
FidelityOption = Annotated[
    str | None,
    typer.Option(
        "--fidelity",
        metavar="NAME",
        show_default=False,
        help="kubelet (the default): every decision as the kubelet's; safe: its defects repaired.",
    ),
]


def loaded(
    on: str | None,
    machine: str | None,
    kubelet_config: Path | None,
    state: Path | None,
    pods: Path | None,
    kubernetes: str | None,
    fidelity: str | None,
) -> Loaded:
    """The situation that the options name; what is uncertain about it is said on stderr."""
    from numalign.apps.snapshots.loading import loaded as load

    found = load(evidence(on, machine, kubelet_config, state, pods, kubernetes, fidelity))
    tell(found.notes)
    return found


def evidence(
    on: str | None,
    machine: str | None,
    kubelet_config: Path | None,
    state: Path | None,
    pods: Path | None,
    kubernetes: str | None,
    fidelity: str | None,
) -> Evidence:
    """The same before anything is concluded from it."""
    from numalign.apps.snapshots.sources import evidence_of
    from numalign.core.settings import Fidelity, Version

    return evidence_of(
        on,
        machine=machine,
        config=kubelet_config,
        state=state,
        pods=() if pods is None else running(pods),
        version=None if kubernetes is None else chosen(Version, kubernetes, "--kubernetes"),
        fidelity=None if fidelity is None else chosen(Fidelity, fidelity, "--fidelity"),
    )


def tell(notes: tuple[str, ...]) -> None:
    """Say on stderr what the user should know before trusting an answer."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def running(place: Path) -> list[PodRecord]:
    """The running pods of a file or directory, - standing for stdin."""
    from numalign.cli import manifests
    from numalign.wire.pods.running import running_pods

    return [r for source, data in manifests.texts(str(place)) for r in running_pods(data, source)]


def chosen(kind: type[E], text: str, option: str) -> E:
    """The value of an option that has a few; ConfigError for another."""
    try:
        return kind(text)
    except ValueError as exc:
        known = " or ".join(kind)
        raise ConfigError(f"{option}: found {text!r}, expected {known}.") from exc
