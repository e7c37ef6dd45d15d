"""Our scheduler as a process, and the stock one with it, for tests on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from tests.real.control_plane import ControlPlane, free_ports

READY_SECONDS_MAX = 60.0
REQUESTS_PER_SECOND = 1000


def stock_config(requests_per_second: int = REQUESTS_PER_SECOND) -> str:
    """The configuration of a stock scheduler; the control plane puts its kubeconfig in."""
    rate = f"qps: {requests_per_second}, burst: {requests_per_second}"
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f'clientConnection: {{kubeconfig: "{{kubeconfig}}", {rate}}}\n'
        "leaderElection: {leaderElect: false}\n"
        "profiles: [{schedulerName: default-scheduler}]\n"
    )


def with_extender(
    address: str,
    verbs: tuple[str, ...] = ("filter", "prioritize", "bind"),
    *,
    requests_per_second: int = REQUESTS_PER_SECOND,
) -> str:
    """The configuration of a stock scheduler that asks our extender."""
    listed = "\n".join(f"  {verb}Verb: {verb}" for verb in verbs)
    return (
        f"{stock_config(requests_per_second)}extenders:\n"
        f"- urlPrefix: {address}/scheduler\n{listed}\n"
        "  weight: 5\n  httpTimeout: 10s\n  nodeCacheCapable: true\n"
    )


class Scheduler:
    """A running ``numalign scheduler``."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self.log = log

    def is_ready(self) -> bool:
        """Whether it says that it knows the cluster."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.address}/readyz", timeout=2).status_code == 200
        return False

    def metric(self, name: str) -> float:
        """One of its metrics, by its name with labels."""
        for line in httpx.get(f"{self.address}/metrics", timeout=5).text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def kill(self) -> None:
        """Ends it without a chance to clean up."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@contextlib.contextmanager
def scheduler(
    plane: ControlPlane, *arguments: str, kubeconfig: Path | None = None, name: str = "scheduler"
) -> Iterator[Scheduler]:
    """Our scheduler until the end of the block; ready at its beginning."""
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "numalign", "scheduler", *arguments, "--listen", listen]
    command += ["--kubeconfig", str(kubeconfig or plane.kubeconfig)]
    log = plane.place / f"{name}-{port}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    found = Scheduler(process, f"http://{listen}", log)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not found.is_ready():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(15)


class SlowWay:
    """A way to the API server on which changes of pods get no further until they are let through.

    What a scheduler sent stays under way when it is killed, as on a slow network.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self.held: list[dict] = []  # the changes that wait or have waited
        self.answers: list[bytes] = []  # to those

    @contextlib.contextmanager
    def running(self) -> Iterator[Path]:
        """A kubeconfig that leads this way."""
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        starting = asyncio.start_server(self._talk, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        config = json.loads(self._plane.kubeconfig.read_text())
        port = server.sockets[0].getsockname()[1]
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        path = self._plane.place / "slow-kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        try:
            yield path
        finally:
            asyncio.run_coroutine_threadsafe(self._end(server), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        for one in self._writers:
            one.transport.abort()
        self._open.set()  # who waits finds nobody
        await asyncio.sleep(0.2)

    def let_through(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._plane.address.removeprefix("https://").partition(":")
        tls = ssl.create_default_context(cafile=self._plane.place / "certs" / "apiserver.crt")
        source, there = await asyncio.open_connection(host, int(port), ssl=tls)
        self._writers += [writer, there]
        back = asyncio.create_task(self._back(source, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if data.startswith(b"PATCH "):
                    self.held.append(json.loads(data.partition(b"\r\n\r\n")[2]))
                    await self._open.wait()
                there.write(data)
        if not self.held:
            there.close()  # else what is held may still be answered, though who asked is gone
        await back

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self._open.is_set():
                    self.answers.append(data.partition(b"\r\n")[0])
                writer.write(data)
        writer.close()
