"""Runs inside the guest: answers calls that come over a virtio port, one line each way."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path

ALIVE_SECONDS = 5.0


def read(path: str) -> str:
    """The text of a file."""
    return Path(path).read_text()


def _port() -> int:
    while True:
        found = sorted(Path("/dev").glob("vport*p1"))
        if found:
            return os.open(found[0], os.O_RDWR)
        time.sleep(0.05)


def _answer(text: bytes) -> dict[str, object]:
    request = json.loads(text)
    module, _, name = request["call"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        return {"value": function(*request["arguments"])}
    except Exception:
        return {"raised": traceback.format_exc()}


def _send(port: int, answer: dict[str, object]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


def _live(path: Path) -> None:
    """Shows from now on that the guest goes on."""
    while True:
        path.write_text(f"{time.monotonic()}\n")
        time.sleep(ALIVE_SECONDS)


def main() -> None:
    """Serves until the guest is ended from outside."""
    port = _port()
    threading.Thread(target=_live, args=(Path(sys.argv[1]),), daemon=True).start()
    _send(port, {"value": "ready"})
    rest = b""
    while True:
        found = os.read(port, 1 << 16)
        if not found:
            time.sleep(0.02)  # nobody is connected
            continue
        rest += found
        while b"\n" in rest:
            text, _, rest = rest.partition(b"\n")
            _send(port, _answer(text))


if __name__ == "__main__":
    sys.exit(main())
