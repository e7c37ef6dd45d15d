"""``numalign machines``: the built-in examples."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.output import Output, output_option

FORMATS: Final = ("table", "json", "yaml")
_HEAD: Final = ("NAME", "SOCKETS", "NODES", "CORES", "CPUS", "MEMORY", "WHAT IT IS")

app = new_app()


@app.command(
    epilog=examples(
        "numalign machines",
        "numalign machines -o json",
        "numalign topology --machine gb200",
    )
)
def machines(ctx: typer.Context, output: Annotated[str, output_option(*FORMATS)] = "table") -> None:
    """List the built-in example machines.

    Each can be given to --machine of the other commands by its name.
    """
    out = Output.of(ctx)
    found = _facts()
    if output != "table":
        out.data(output, found)
    else:
        _table(out, found)


def _facts() -> list[dict[str, Any]]:
    from numalign.core.machine.examples.catalogue import EXAMPLES

    facts = []
    for example in EXAMPLES.values():
        machine = example.machine()
        facts.append(
            {
                "name": example.name,
                "title": example.title,
                "description": example.description,
                "sockets": len(machine.sockets),
                "numaNodes": len(machine.nodes),
                "cores": len(machine.cores),
                "cpus": len(machine.cpus),
                "memoryBytes": machine.memory_bytes,
            }
        )
    return facts


def _table(out: Output, facts: list[dict[str, Any]]) -> None:
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line
    from numalign.core.values.sizes import human

    rows = [
        (
            one["name"],
            str(one["sockets"]),
            str(one["numaNodes"]),
            str(one["cores"]),
            str(one["cpus"]),
            human(one["memoryBytes"]),
            one["description"],
        )
        for one in facts
    ]
    numbers = (1, 2, 3, 4, 5)
    out.lines(columns(_HEAD, rows, width=out.table_width, flexible=(6,), right=numbers, prose=(6,)))
    hint = "Use one by its name: numalign topology --machine epyc-2s-nps4"
    out.lines([line(""), line(hint, Tone.DIM)])
