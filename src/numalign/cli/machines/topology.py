"""``numalign topology``: a machine as text, data or picture."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.apps.render.text import Line, plain
from numalign.cli.app import examples, new_app
from numalign.cli.options import MachineOption, optional
from numalign.cli.output import Output, format_of, output_option
from numalign.core.machine.machine import Machine

if TYPE_CHECKING:
    from numalign.core.kubelet.admission.verdict import HostSnapshot

LSTOPO: Final = "lstopo-misc"
FORMATS: Final = ("tree", "table", "json", "yaml", "svg", "png", "html", LSTOPO)

app = new_app()


@app.command(
    epilog=examples(
        "numalign topology --machine epyc-2s-nps4 -o table",
        "numalign topology --output-file machine.png",
        "numalign topology -m /mnt/capture.tar.xz -o json | jq .nodes",
        "numalign topology --pods -o lstopo-misc > pods.txt && lstopo --misc-from pods.txt",
    )
)
def topology(
    ctx: typer.Context,
    machine: MachineOption = None,
    output: Annotated[str | None, output_option(*FORMATS)] = None,
    output_file: Annotated[
        Path | None,
        optional(
            "--output-file",
            metavar="FILE",
            help="Write to this file; its ending tells the format unless -o does.",
        ),
    ] = None,
    pods: Annotated[
        bool,
        typer.Option(
            "--pods",
            help="Also who owns which CPUs, of this host, a bundle or an agent's URL given with "
            "--machine.",
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="A line for each core and device in the tree.")
    ] = False,
) -> None:
    """Show sockets, NUMA nodes, caches, CPUs, memory and devices.

    Without -o it is a tree for people. json and yaml hold the whole machine and can be given
    to --machine again; svg, png and html are pictures. lstopo-misc is a file of pods for
    'lstopo --misc-from' (hwloc 2.10 or newer).
    """
    from numalign.adapters.sources.discovery import discover

    out = Output.of(ctx)
    start = perf_counter()
    wanted = output or format_of(output_file, FORMATS, "tree")
    if pods and wanted not in {"tree", "table", LSTOPO}:
        raise typer.BadParameter(f"--pods goes with tree, table and {LSTOPO}, found -o {wanted}")
    snapshot = _snapshot(machine) if pods or wanted == LSTOPO else None
    found = discover(machine) if snapshot is None else snapshot.machine
    out.debug(f"read {machine or 'host'} in {(perf_counter() - start) * 1000:.0f} ms")
    if wanted in ("tree", "table"):
        lines = _lines(found, wanted, full=full, width=out.width)
        lines += [] if snapshot is None else _pod_lines(snapshot, out.width)
        out.lines(lines) if output_file is None else out.file(output_file, plain(lines).encode())
        return
    content = _content(found, wanted) if snapshot is None else _misc(snapshot)
    if output_file is not None:
        out.file(output_file, content)
    elif wanted == "png":
        out.binary(content, "A PNG picture")
    else:
        out.text(content.decode())


def _snapshot(source: str | None) -> HostSnapshot:
    """The host with its pods; what was not found of it is said on stderr."""
    from numalign.apps.snapshots.loading import loaded
    from numalign.apps.snapshots.sources import inputs_of
    from numalign.cli.host.source_options import tell

    found = loaded(inputs_of(source or "host"))
    tell(found.inputs.notes)
    if not found.snapshot.state.pods:
        tell((f"no pods are known of {found.inputs.source}",))
    return found.snapshot


def _misc(snapshot: HostSnapshot) -> bytes:
    from numalign.apps.render import lstopo_misc

    return lstopo_misc.render(snapshot).encode()


def _pod_lines(snapshot: HostSnapshot, width: int) -> list[Line]:
    from numalign.apps.render import lstopo_misc
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import line
    from numalign.core.values.sets import format_list

    places = snapshot.host.cpu_topology
    rows = [
        (format_list(places.nodes_of(cpus)), format_list(cpus), name)
        for name, cpus, _ in lstopo_misc.entries(snapshot)
    ]
    if not rows:
        return []
    return [line(""), *columns(("NODE", "CPUS", "POD"), rows, width=width, flexible=(1,))]


def _lines(machine: Machine, wanted: str, *, full: bool, width: int) -> list[Line]:
    from numalign.apps.render import table, tree

    if wanted == "table":
        return table.render(machine, width=width)
    return tree.render(machine, full=full, width=width)


def _content(machine: Machine, wanted: str) -> bytes:
    """The machine as data or picture. Each format loads only what it needs."""
    match wanted:
        case "json":
            from numalign.wire.machine.machine_yaml import to_json

            return f"{to_json(machine)}\n".encode()
        case "yaml":
            from numalign.wire.machine.machine_yaml import dump

            return dump(machine).encode()
        case "svg":
            from numalign.apps.render import svg

            return svg.render(machine).encode()
        case "html":
            from numalign.apps.render import html

            return html.render(machine).encode()
        case "png":
            from numalign.apps.render import png

            return png.render(machine)
        case _:
            raise AssertionError(f"the option -o lets {wanted} through, but nothing renders it")
