"""A worker host of the cluster with a real kubelet: a guest with several NUMA nodes.

    with real_worker(plane, {"topologyManagerPolicy": "restricted"}) as worker:
        worker.state_files()

Inside run containerd, the kubelet with device plugins and our exporter on the kubelet's own
PodResources socket. The functions at the end are called inside the guest. The API server is
reached through a relay, so that its certificate is right.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.peers.build import NUMA_PLUGIN, built
from tests.real import containerd, kubernetes
from tests.real.control_plane import ControlPlane
from tests.real.guest import TOPOLOGIES, Guest
from tests.twin import kubelet
from tests.twin.configurations import Configuration
from tests.twin.worker import start_containerd

INSIDE = "tests.cluster.real_worker"
START_SECONDS_MAX = 240.0
OUTSIDE = "10.0.2.2"  # this host's loopback, as the guest sees it
KUBECONFIG = Path("/run/kubeconfig")
EXPORTER_KUBECONFIG = Path("/run/exporter-kubeconfig")


class RealWorker:
    """One guest that is a host of the cluster."""

    def __init__(self, guest: Guest, name: str) -> None:
        self.guest = guest
        self.name = name

    def call(self, function: str, *arguments: Any, seconds: float = 60.0) -> Any:
        """A function of this file, inside."""
        return self.guest.call(f"{INSIDE}:{function}", *arguments, seconds=seconds)

    def state_files(self) -> dict[str, str]:
        """The kubelet's state files."""
        found: dict[str, str] = self.call("inside_state_files")
        return found

    def log(self, name: str) -> str:
        """The end of a log: kubelet, containerd or exporter."""
        text: str = self.call("inside_log", name)
        return text


@contextmanager
def real_worker(
    plane: ControlPlane,
    settings: Mapping[str, Any],
    *,
    name: str = kubelet.HOST_NAME,
    exporter_kubeconfig: Path | None = None,
    version: str = "1.36.4",
    suite: str = "sid",
    runtime: str = "",
    exporter: Sequence[str] = (),
) -> Iterator[RealWorker]:
    """A worker whose kubelet has registered; MissingError where something is missing.

    ``suite``: of containerd, ``runtime``: further configuration of it, ``exporter``: options.
    """
    chosen = Configuration("cluster", "four-nodes", "0", dict(settings))
    program = str(kubernetes.programs(version, ["kubelet"]) / "kubelet")
    files = containerd.fetched(suite)
    with Guest(TOPOLOGIES["four-nodes"], has_network=True) as guest:
        worker = RealWorker(guest, name)
        port = urlsplit(plane.address).port
        worker.call("inside_relay", port)
        start_containerd(guest, files, runtime)
        account = exporter_kubeconfig or plane.kubeconfig
        certificate = (plane.place / "certs" / "apiserver.crt").read_text()
        worker.call(
            "inside_start",
            program,
            str(files),
            chosen.kubelet,
            name,
            plane.kubeconfig.read_text(),
            account.read_text(),
            [str(plane.place / "certs" / "apiserver.crt"), certificate],
            list(exporter),
            seconds=START_SECONDS_MAX,
        )
        guest.call("tests.twin.kubelet:wait_for_images", seconds=START_SECONDS_MAX)
        guest.call(
            "tests.twin.kubelet:start_plugins",
            str(built(NUMA_PLUGIN)),
            chosen.devices,
            str(kubelet.DEVICES),
            seconds=START_SECONDS_MAX,
        )
        yield worker


# Inside the guest.


def inside_relay(port: int) -> None:
    """Makes the API server reachable under the address that it has outside."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(OUTSIDE, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", port)
        async with server:
            await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()


def inside_start(
    program: str,
    files: str,
    config: dict[str, Any],
    name: str,
    kubeconfig: str,
    exporter_kubeconfig: str,
    certificate: list[str],
    options: list[str],
) -> None:
    """Starts the kubelet as a host of the cluster, and the exporter beside it."""
    # Below /tmp, which is another directory in here.
    path = Path(certificate[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(certificate[1])
    KUBECONFIG.write_text(kubeconfig)
    EXPORTER_KUBECONFIG.write_text(exporter_kubeconfig)
    kubelet.MANIFESTS.mkdir()
    kubelet.ROOT.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "kubelet", str(kubelet.ROOT)], check=True)
    kubelet.CONFIG.write_text(json.dumps(config))
    command = [program, "--config", str(kubelet.CONFIG), "--hostname-override", name]
    command += ["--kubeconfig", str(KUBECONFIG)]
    process = kubelet._started("kubelet", command, PATH=f"{files}/bin:{os.environ['PATH']}")
    socket = kubelet.ROOT / "pod-resources" / "kubelet.sock"

    def is_up() -> bool:
        if process.poll() is not None:
            raise kubelet.NotSettledError(f"the kubelet ended: {inside_log('kubelet')}")
        return socket.exists() and all(
            kubelet.STATE_FILES[one].exists() for one in list(kubelet.STATE_FILES)[:2]
        )

    kubelet.until(is_up, "the kubelet serves PodResources", kubelet.START_SECONDS_MAX)
    exporter = [sys.executable, "-m", "numalign", "export", "--host-name", name, *options]
    exporter += ["--kubeconfig", str(EXPORTER_KUBECONFIG), "--interval", "10"]
    kubelet._started("exporter", exporter, PYTHONFAULTHANDLER="1")


def inside_state_files() -> dict[str, str]:
    """The kubelet's state files that there are."""
    return {name: path.read_text() for name, path in kubelet.STATE_FILES.items() if path.exists()}


def inside_log(name: str) -> str:
    """The end of a log."""
    return kubelet._log(name)[-3000:]


def inside_write(path: str, text: str) -> None:
    """Writes a file."""
    Path(path).write_text(text)
