"""``numalign run``: a command in the foreground, on CPUs and memory that are free."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import SOCKET_VARIABLE
from numalign.cli.options import optional, unfold

app = new_app()


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What the command is to have."""

    cpus: Annotated[
        str | None,
        optional("--cpus", metavar="N", help="CPUs of its own; a part such as 500m is shared."),
    ] = None
    memory: Annotated[
        str | None, optional("--memory", metavar="SIZE", help="Memory, such as 8Gi; its limit too.")
    ] = None
    hugepages_2mi: Annotated[
        str | None, optional("--hugepages-2Mi", metavar="SIZE", help="Memory in pages of 2 MiB.")
    ] = None
    hugepages_1gi: Annotated[
        str | None, optional("--hugepages-1Gi", metavar="SIZE", help="Memory in pages of 1 GiB.")
    ] = None
    device: Annotated[
        list[str] | None,
        optional("--device", metavar="RESOURCE=N", help="Devices. Repeat for more resources."),
    ] = None
    policy: Annotated[
        str | None,
        optional(
            "--policy",
            metavar="NAME",
            help="none, best-effort, restricted or single-numa-node; by default the host's.",
        ),
    ] = None
    memory_policy: Annotated[
        str | None,
        optional(
            "--memory-policy",
            metavar="POLICY",
            help="local, preferred=NODE, bind, interleave or weighted-interleave, each but local "
            "also with =NODES; within the nodes that it is given.",
        ),
    ] = None
    name: Annotated[
        str | None, optional("--name", metavar="NAME", help="Of its pod; by default the command's.")
    ] = None

    @property
    def amounts(self) -> dict[str, str]:
        """By resource, what is given."""
        found = {
            "cpu": self.cpus,
            "memory": self.memory,
            "hugepages-2Mi": self.hugepages_2mi,
            "hugepages-1Gi": self.hugepages_1gi,
        }
        return {name: text for name, text in found.items() if text is not None}


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "numalign run --cpus 4 --memory 8Gi -- ./solver input.dat",
        "numalign run --cpus 8 --policy single-numa-node --wait -- make -j8",
        "numalign run --memory 16Gi --memory-policy interleave -- redis-server",
        "numalign run --device nvidia.com/gpu=1 --cpus 2 --dry-run -- python train.py",
    ),
)
@unfold
def run(
    *,
    ctx: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="What to run, with its arguments.")
    ],
    asked: AskOptions,
    wait: Annotated[
        bool, typer.Option("--wait", help="Queue until it fits, instead of failing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say where it would sit, and run nothing.")
    ] = False,
    socket: Annotated[
        Path | None,
        optional(
            "--socket",
            metavar="PATH",
            envvar=SOCKET_VARIABLE,
            help="The agent's unix socket, if it is not in the usual state directory.",
        ),
    ] = None,
) -> int:
    """Run a command on CPUs, memory and devices of its own.

    The agent admits it as a pod of its own and puts this process in its place, which then becomes
    the command: terminal, input, signals, directory, environment and user stay as they are, and
    its exit code is that of the command. When it ends, also with its terminal, all is given back
    and what it has left behind is ended. It goes on if the agent ends. Memory that is not asked
    for is not limited, and comes from anywhere.

    Refused: exit code 1 and the cause. With --wait those who wait are served strictly in the order
    in which they came, whatever they ask for; what is asked for without --wait is decided at once.
    What could never fit is refused. 126 and 127: the command cannot be run or found.
    """
    from numalign.cli.agent.running import Wish, run_command
    from numalign.cli.client.agent_options import asked_socket

    wish = Wish(
        command,
        asked.amounts,
        tuple(asked.device or ()),
        asked.policy,
        asked.memory_policy,
        asked.name,
    )
    place = str(asked_socket(socket))
    if dry_run:
        from numalign.cli.agent.dry_run import show_place

        return show_place(ctx, wish, place)
    return run_command(wish, place, waits=wait)
