"""Code blocks and links of the README and of docs, as a reader would copy them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Final, NamedTuple

from tests.paths import CHECKOUT, DOCS

PAGES: Final = sorted(
    [
        *CHECKOUT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(CHECKOUT / "examples").rglob("*.md"),
    ]
)
_FENCE: Final = re.compile(r"^\s*```\s*(\S*)")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_ENDS_COMMAND: Final = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1", "2>"}
_BEFORE: Final = {"sudo", "time", "-E"}


class Block(NamedTuple):
    page: Path
    line: int
    language: str  # empty for an indented block
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """All code blocks of a page, fenced and indented."""
    lines = page.read_text().splitlines()
    at = 0
    before = ""
    while at < len(lines):
        if found := _FENCE.match(lines[at]):
            start = at = at + 1
            while at < len(lines) and not lines[at].lstrip().startswith("```"):
                at += 1
            yield Block(page, start + 1, found[1], "\n".join(lines[start:at]))
            at += 1
        elif lines[at].startswith("    ") and not before.strip():
            start = at
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield Block(page, start + 1, "", "\n".join(line[4:] for line in lines[start:at]))
        else:
            before = lines[at]
            at += 1


def commands(block: Block, *programs: str) -> Iterator[list[str]]:
    """The words of every call of one of these programs, up to a pipe, a redirection or a comment.

    Where a block shows a prompt, only lines with one are commands.
    """
    text = block.text.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    if prompted := [line[2:] for line in lines if line.startswith("$ ")]:
        lines = prompted
    for line in lines:
        for call in _calls(line):
            words = list(dropwhile(lambda word: word in _BEFORE or "=" in word, call))
            if words and Path(words[0]).name in programs:
                yield words


def _calls(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote that goes on in the next line
        return
    call: list[str] = []
    for word in words:
        if word in _ENDS_COMMAND:
            yield call
            call = []
        else:
            call.append(word)
    yield call


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures, without those in code."""
    inside = False
    for line in page.read_text().splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside and not line.startswith("    "):
            for found in _LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                yield found[1] or found[2]


def anchors(page: Path) -> set[str]:
    """What a link can name after '#'."""
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", page.read_text(), re.M):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower())
        found.add(plain.strip().replace(" ", "-"))
    return found
