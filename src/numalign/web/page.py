"""The pages for people: one file of their own each, made of parts that have one subject each.

A page is self-contained and reads the same JSON as everybody else. Its policy allows just its own
style and script, by their hashes; texts of pods are only ever set as text, never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

_FILES: Final = resources.files("numalign.web").joinpath("page_files")
_SCRIPT_TOP: Final = "'use strict';\n"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page, and the Content-Security-Policy that goes with it."""

    text: str
    policy: str


def read(name: str) -> str:
    """One of the files of the pages, such as style/base.css."""
    return _FILES.joinpath(*name.split("/")).read_text("utf-8")


def scripts_of(folder: str) -> list[str]:
    """The scripts of a folder and of those in it, in the order of their names."""
    found = []
    for one in sorted(_FILES.joinpath(*folder.split("/")).iterdir(), key=lambda file: file.name):
        if one.is_dir():
            found += scripts_of(f"{folder}/{one.name}")
        elif one.name.endswith(".js"):
            found.append(read(f"{folder}/{one.name}"))
    return found


def rendered(html: str, styles: Sequence[str], scripts: Sequence[str]) -> Rendered:
    """A page of its parts: one style for /*STYLE*/, and one script for /*SCRIPT*/."""
    style, script = "".join(styles), _SCRIPT_TOP + "".join(scripts)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    text = html.replace("/*STYLE*/", style, 1).replace("/*SCRIPT*/", script, 1)
    return Rendered(text, policy)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


HOST: Final = rendered(
    read("host/host.html"), [read("style/base.css"), read("style/host.css")], scripts_of("host")
)
PAGE: Final = HOST.text
CONTENT_POLICY: Final = HOST.policy
