"""How the results of ``apply`` and ``delete`` are shown."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from numalign.cli.main import FAILED, one_line
from numalign.cli.output import Output

if TYPE_CHECKING:
    from numalign.cli.client.pod_changes import Change


def show(out: Output, output: str, changes: Iterable[Change]) -> None:
    """Prints each change when it is done, or all at the end as data; exits with 1 after a no."""
    done = []
    for change in changes:
        done.append(change)
        if output == "lines":
            out.text(one_line(change.line) + "\n")
    if output != "lines":
        from dataclasses import asdict

        records = [asdict(change) for change in done]
        if output == "json":
            import json

            out.text(json.dumps(records, indent=2) + "\n")
        else:
            import yaml

            out.text(yaml.safe_dump(records, sort_keys=False, width=out.width))
    if not all(change.is_ok for change in done):
        raise typer.Exit(FAILED)
