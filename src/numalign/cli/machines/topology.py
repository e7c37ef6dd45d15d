"""``numalign topology``: a machine as text, data or picture."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import typer

from numalign.apps.render.text import Line, plain
from numalign.cli.app import examples, new_app
from numalign.cli.options import MachineOption, optional
from numalign.cli.output import Output, format_of, output_option
from numalign.core.machine.machine import Machine

FORMATS: Final = ("tree", "table", "json", "yaml", "svg", "png", "html")

app = new_app()


@app.command(
    epilog=examples(
        "numalign topology",
        "numalign topology --machine epyc-2s-nps4 -o table",
        "numalign topology --output-file machine.png",
        "numalign topology -m /mnt/capture.tar.xz -o json | jq .nodes",
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
    full: Annotated[
        bool, typer.Option("--full", help="A line for each core and device in the tree.")
    ] = False,
) -> None:
    """Show sockets, NUMA nodes, caches, CPUs, memory and devices.

    Without -o it is a tree for people. json and yaml hold the whole machine and can be given
    to --machine again; svg, png and html are pictures.
    """
    from numalign.adapters.sources.discovery import discover

    out = Output.of(ctx)
    start = perf_counter()
    found = discover(machine)
    out.debug(f"read {machine or 'host'} in {(perf_counter() - start) * 1000:.0f} ms")
    wanted = output or format_of(output_file, FORMATS, "tree")
    if wanted in ("tree", "table"):
        lines = _lines(found, wanted, full=full, width=out.width)
        out.lines(lines) if output_file is None else out.file(output_file, plain(lines).encode())
        return
    content = _content(found, wanted)
    if output_file is not None:
        out.file(output_file, content)
    elif wanted == "png":
        out.binary(content, "A PNG picture")
    else:
        out.text(content.decode())


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
