"""A real Prometheus with promtool, from Debian's package, kept outside the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.real.control_plane import free_ports
from tests.real.kept import cache, kept
from tests.real.packages import STABLE, program_of, unpacked_packages

PROGRAMS: Final = ("prometheus", "promtool")
READY_SECONDS_MAX: Final = 60.0


def programs() -> Path:
    """A directory with both programs; MissingError if they cannot be had here."""
    return kept(cache() / "prometheus", _fetch)


def _fetch(scratch: Path, ready: Path) -> None:
    unpacked = unpacked_packages("Prometheus", scratch, STABLE, f"prometheus/{STABLE}")
    ready.mkdir()
    for name in PROGRAMS:
        shutil.copy2(program_of(unpacked, name), ready / name)


class Prometheus:
    """One that runs on loopback."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self._url}/-/ready", timeout=2):
            return True
        return False


@contextmanager
def prometheus(directory: Path, config: str) -> Iterator[Prometheus]:
    """Prometheus with this configuration, for the time of the block."""
    [port] = free_ports(1)
    (directory / "prometheus.yml").write_text(config)
    command = [
        str(programs() / "prometheus"),
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    found = Prometheus(port)
    try:
        until = time.monotonic() + READY_SECONDS_MAX
        while not found.is_ready():
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() < until, "Prometheus is not ready"
            time.sleep(0.1)
        yield found
    finally:
        process.terminate()
        process.wait(30)
