"""The page of a fleet, made as that of a host."""

from __future__ import annotations

from typing import Final

from numalign.web.page import Rendered, read, rendered, scripts_of

FLEET: Final[Rendered] = rendered(
    read("fleet/fleet.html"),
    [read("style/base.css"), read("style/fleet.css")],
    [read("host/00-words.js"), *scripts_of("fleet")],
)
