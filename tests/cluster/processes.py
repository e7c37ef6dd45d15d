"""Commands of ours as real processes, with their log at hand when something goes wrong."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.real.control_plane import free_ports


class Running:
    """One command that runs, and its probes."""

    def __init__(self, process: subprocess.Popen, log: Path, port: int) -> None:
        self.process = process
        self._log = log
        self._port = port

    @property
    def log(self) -> str:
        return self._log.read_text()

    def asked(self, path: str) -> tuple[int, str]:
        """The answer of a probe; code 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    @property
    def problems(self) -> list[str] | None:
        code, text = self.asked("/readyz")
        return json.loads(text)["problems"] if code else None

    def metric(self, line: str) -> float:
        """The value of a metric; 0 where it was never counted."""
        _, text = self.asked("/metrics")
        for found in text.splitlines():
            if found.startswith(f"{line} "):
                return float(found.rpartition(" ")[2])
        return 0.0


@contextlib.contextmanager
def running(place: Path, *arguments: str) -> Iterator[Running]:
    """A ``numalign`` command with a free port for its probes; ended with SIGTERM."""
    (port,) = free_ports(1)
    log = place / f"numalign-{port}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "numalign", *arguments, f"--listen=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        yield Running(process, log, port)
    finally:
        process.terminate()
        try:
            code = process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        assert code == 0, log.read_text()[-3000:]
