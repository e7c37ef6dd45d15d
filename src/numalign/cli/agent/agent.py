"""``numalign agent``: run the node agent on this host."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import (
    AllowedHostOption,
    MachineOption,
    ShapesOption,
    TlsCertOption,
    TlsKeyOption,
    optional,
    unfold,
)
from numalign.core.errors import ConfigError

app = new_app()

ConfigOption = Annotated[
    Path | None,
    optional(
        "--config",
        help="A KubeletConfiguration, or an AgentConfiguration of ours. Without it: static CPU "
        "and memory managers, best-effort, one reserved CPU.",
    ),
]
StateOption = Annotated[
    Path | None,
    optional(
        "--state-dir",
        help="Where state, logs and sockets are kept. Without it: /var/lib/numalign for root, "
        "~/.local/state/numalign for others.",
    ),
]


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where the API listens besides its unix socket, and which shapes it counts."""

    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            help="Address of the read-only API; '' for none. Others than loopback need TLS, and "
            "clients there a token.",
        ),
    ] = "127.0.0.1:8421"
    tls_cert: TlsCertOption = None
    tls_key: TlsKeyOption = None
    allowed_host: AllowedHostOption = None
    shapes: ShapesOption = None


CriSocketOption = Annotated[
    str | None,
    optional(
        "--cri-socket",
        help="Socket of the container runtime. Without it: that of containerd, then of CRI-O.",
    ),
]
RUNTIMES: Final = ("process", "cri", "none")


def check_runtime(name: str) -> None:
    """ConfigError for a runtime that there is not."""
    if name not in RUNTIMES:
        raise ConfigError(f"--runtime: found {name!r}, expected one of {', '.join(RUNTIMES)}")


def socket_of(text: str | None) -> Path | None:
    """The path that --cri-socket names."""
    return None if text is None else Path(text.removeprefix("unix://"))


@app.command(
    epilog=examples(
        "numalign agent --config kubelet.yaml --pods /etc/numalign/pods",
        "numalign agent --listen 0.0.0.0:8443 --tls-cert agent.crt --tls-key agent.key",
        "numalign agent --runtime cri --cri-socket /run/containerd/containerd.sock",
        "numalign agent --runtime none --machine epyc-2s-nps4 --state-dir /tmp/try",
    )
)
@unfold
def agent(
    *,
    config: ConfigOption = None,
    pods: Annotated[
        Path | None,
        optional(
            "--pods",
            help="A directory of manifests to follow: a new file is a pod, a changed one replaces "
            "it, a removed one ends it. Names that begin with a dot are passed over.",
        ),
    ] = None,
    state_dir: StateOption = None,
    runtime: Annotated[
        str,
        typer.Option(
            help="What runs containers: process (of this host), cri (containerd or CRI-O), or none "
            "to decide only."
        ),
    ] = "process",
    cri_socket: CriSocketOption = None,
    objects: Annotated[
        Path | None,
        optional(
            "--objects-dir",
            help="ConfigMaps and Secrets for env and volumes: DIR/configmaps/NAMESPACE/NAME/KEY "
            "and DIR/secrets/... Who asked for a pod gets what it may read.",
        ),
    ] = None,
    machine: MachineOption = None,
    listening: ListenOptions,
) -> int:
    """Run the node agent: admit pods, run and pin them, repair drift.

    It follows a directory of manifests and serves an API on a unix socket in the state directory.
    Containers go on when it stops, and are taken up again when it starts.
    """
    from numalign.cli.agent.process import run_agent

    return run_agent(
        config=config,
        pods=pods,
        state_dir=state_dir,
        runtime=runtime,
        machine=machine,
        listening=listening,
        ends_pods=False,
        cri_socket=cri_socket,
        objects=objects,
    )
