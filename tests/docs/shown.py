"""What pages show a reader at a prompt, run as it stands: ``$ command`` and what it prints.

``$ cat FILE`` shows a file, which is made. A line of dots stands for any lines, dots within a line
for any text.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs.blocks import Block, blocks

DOTS: Final = "..."
_SECONDS_MAX: Final = 60


class Shown(NamedTuple):
    where: str
    command: str
    output: list[str]


def shown(page: Path) -> Iterator[Shown]:
    """Every command at a prompt of ours on a page, with the lines below it."""
    for block in blocks(page):
        yield from _of_block(block)


def _of_block(block: Block) -> Iterator[Shown]:
    command, output = None, []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield Shown(block.where, command, output)
            command, output = line[2:], []
        elif command is not None:
            output.append(line.rstrip())
    if command is not None:
        yield Shown(block.where, command, output)


def run(one: Shown, directory: Path) -> str | None:
    """Runs it in a directory that is also its home; what was printed, None if it is not ours."""
    words = shlex.split(one.command)
    if words[0] == "cat":
        (directory / words[1]).write_text("\n".join(one.output) + "\n")
        return None
    if words[0] != "numalign" or {"|", ">", "&"} & set(words):
        return None
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": str(directory),
        "LANG": "C.UTF-8",
    }
    found = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    return found.stdout + found.stderr


def matches(output: list[str], printed: str) -> bool:
    """Whether this is what was printed, where dots may stand for more."""
    pattern = ""
    for line in _without_empty_end(output):
        if line.strip() == DOTS:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split(DOTS)) + r"[ ]*\n"
    text = "\n".join(_without_empty_end(line.rstrip() for line in printed.splitlines())) + "\n"
    return re.fullmatch(pattern, text) is not None


def _without_empty_end(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    while found and not found[-1]:
        found.pop()
    return found
