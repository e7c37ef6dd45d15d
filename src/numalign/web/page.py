"""One read-only page for people: the machine with who sits where, pods, and the last decisions.

It is self-contained and reads the same JSON as everybody else. Its policy allows just this style
and this script, by their hashes; texts of pods are only ever set as text, never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Final


def _file(name: str) -> str:
    return resources.files("numalign.web").joinpath("page_files", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_STYLE: Final = _file("page.css")
_SCRIPT: Final = _file("page.js")

CONTENT_POLICY: Final = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_TEMPLATE: Final = (
    _file("page.html").replace("/*STYLE*/", _STYLE, 1).replace("/*SCRIPT*/", _SCRIPT, 1)
)
PAGE: Final = _TEMPLATE.replace("<!--STORED-->", "", 1)
_META_POLICY: Final = CONTENT_POLICY.replace("; frame-ancestors 'none'", "").replace(
    "connect-src 'self'", "connect-src 'none'"
)


def stored_page(answers: Mapping[str, object]) -> str:
    """The page of a host that does not run, with the answers that an agent would give in it."""
    data = json.dumps(answers, separators=(",", ":")).replace("<", "\\u003c")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_META_POLICY}">'
    stored = f'<script type="application/json" id="stored">{data}</script>'
    page = _TEMPLATE.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1)
    return page.replace("<!--STORED-->", stored, 1)
