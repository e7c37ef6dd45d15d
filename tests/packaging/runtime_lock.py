"""Writes packaging/requirements.lock: of requirements.lock what the program needs to run.

python -m tests.packaging.runtime_lock
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Final

from tests.paths import CHECKOUT

WHOLE: Final = CHECKOUT / "requirements.lock"
RUNTIME: Final = CHECKOUT / "packaging" / "requirements.lock"
_HEAD: Final = "# Made from requirements.lock by `python -m tests.packaging.runtime_lock`.\n"
_ASKED: Final = "numalign (pyproject.toml)"  # by the program itself, not by its developers
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")


def runtime_lock() -> str:
    """What the program needs with all its extras, as the image has it."""
    return _HEAD + _leading_from({_ASKED})


def extras_lock(*extras: str) -> str:
    """What ``pip install numalign`` brings, with these extras."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    asked = list(project["dependencies"])
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    return _leading_from({name[0] for one in asked if (name := _NAME.match(one))})


def _leading_from(wanted: set[str]) -> str:
    """The entries of the lock file that these bring, and what they bring, unchanged."""
    entries = list(_entries(WHOLE.read_text()))
    while more := {name for name, via, _ in entries if via & wanted} - wanted:
        wanted |= more
    return "".join(text for name, _, text in entries if name in wanted)


def _entries(lock: str) -> Iterator[tuple[str, set[str], str]]:
    """Name, who asks for it, and the text of each entry."""
    for text in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if not (found := _NAME.match(text)):
            continue
        comments = [line.strip().lstrip("# ") for line in text.splitlines() if "    #" in line]
        yield found[0], {line.removeprefix("via ").strip() for line in comments}, text


def main() -> int:
    """Writes it."""
    RUNTIME.write_text(runtime_lock())
    sys.stdout.write(f"wrote {RUNTIME.relative_to(CHECKOUT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
