"""The options that say which host is meant, shared by all commands that ask about one."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from numalign.cli.options import MachineOption, optional
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.snapshots.inputs import LoadedSnapshot, SnapshotInputs
    from numalign.core.kubelet.older_versions import Kubernetes
    from numalign.wire.pods.records import PodRecord

E = TypeVar("E", bound=StrEnum)

OnOption = Annotated[
    str | None,
    optional(
        "--on",
        metavar="SRC",
        help="Which host: host (this one, the default), a bundle of 'numalign capture', an agent's "
        "URL (http://127.0.0.1:8421 or unix:///PATH), or any machine as for --machine.",
    ),
]
KubeletConfigOption = Annotated[
    Path | None,
    optional(
        "--kubelet-config",
        metavar="FILE",
        help="A KubeletConfiguration (or an AgentConfiguration) in place of the host's own.",
    ),
]
StateOption = Annotated[
    Path | None,
    optional(
        "--state",
        metavar="DIR",
        help="A directory with the kubelet's state files, such as /var/lib/kubelet.",
    ),
]
PodsOption = Annotated[
    Path | None,
    optional(
        "--pods",
        metavar="FILE",
        help="The running pods: the output of 'kubectl get pods -A -o json', or a directory of "
        "static manifests.",
    ),
]
KubernetesOption = Annotated[
    str | None,
    optional(
        "--kubernetes",
        metavar="VERSION",
        help="Decide as 1.36 (the default) or 1.37 does. 1.28 to 1.35 are decided about with the "
        "rules of 1.36, and what may differ is said.",
    ),
]
FidelityOption = Annotated[
    str | None,
    optional(
        "--fidelity",
        metavar="NAME",
        help="kubelet (the default): every decision as the kubelet's; safe: its defects repaired.",
    ),
]
DeviceOption = Annotated[
    list[str] | None,
    optional(
        "--device",
        metavar="RESOURCE=COUNT@NODE,…",
        help="Ask as if the host had these devices, so many on each NUMA node, such as "
        "nvidia.com/gpu=2@0,2@1; in place of what it has of the resource. Repeat for more.",
    ),
]
StaticOption = Annotated[
    bool,
    typer.Option("--static", help="Ask as for static pods, which the kubelet takes for critical."),
]


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Everything that can be said about a host, but for its name."""

    machine: MachineOption = None
    kubelet_config: KubeletConfigOption = None
    state: StateOption = None
    pods: PodsOption = None
    kubernetes: KubernetesOption = None
    fidelity: FidelityOption = None

    def loaded(self, on: str | None, devices: list[str] | None = None) -> LoadedSnapshot:
        """The snapshot that the options name; what is uncertain about it is said on stderr."""
        from numalign.apps.snapshots.loading import loaded

        inputs = self.inputs(on)
        if devices:
            from numalign.apps.snapshots.declared import with_declared

            inputs = with_declared(inputs, devices)
        found = loaded(inputs)
        tell(found.notes)
        return found

    def inputs(self, on: str | None) -> SnapshotInputs:
        """The same before anything is concluded from it."""
        from numalign.apps.snapshots.sources import inputs_of
        from numalign.core.settings import Fidelity

        return inputs_of(
            on,
            machine=self.machine,
            config=self.kubelet_config,
            state=self.state,
            pods=running(self.pods),
            kubernetes=chosen_version(self.kubernetes),
            fidelity=None
            if self.fidelity is None
            else chosen(Fidelity, self.fidelity, "--fidelity"),
        )


def chosen_version(text: str | None) -> Kubernetes | None:
    """The version that --kubernetes names, if it is given."""
    from numalign.core.kubelet import older_versions

    try:
        return None if text is None else older_versions.parsed(text)
    except ValueError as error:
        raise ConfigError(f"--kubernetes: {error}.") from error


def tell(notes: tuple[str, ...]) -> None:
    """Say on stderr what the user should know before trusting an answer."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def running(place: Path | None) -> list[PodRecord]:
    """The running pods of a file or directory, - standing for stdin."""
    if place is None:
        return []
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
