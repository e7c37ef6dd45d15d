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
from tests.real.control_plane import SERVICE_ADDRESS, ControlPlane
from tests.real.guest import TOPOLOGIES, Guest
from tests.twin import kubelet
from tests.twin.configurations import Configuration
from tests.twin.worker import start_containerd

INSIDE = "tests.cluster.real_worker"
START_SECONDS_MAX = 240.0
OUTSIDE = "10.0.2.2"  # this host's loopback, as the guest sees it
IMAGE_SECONDS_MAX = 600.0
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
    image: Path | None = None,
) -> Iterator[RealWorker]:
    """A worker whose kubelet has registered; MissingError where something is missing.

    ``suite``: of containerd, ``runtime``: further configuration of it, ``exporter``: options.
    With an ``image`` everything of ours comes from pods: no exporter is started, the runtime has
    the image, and pods have a network of their own, on which they reach the API server.
    """
    chosen = Configuration("cluster", "four-nodes", "0", dict(settings))
    program = str(kubernetes.programs(version, ["kubelet"]) / "kubelet")
    files = containerd.fetched(suite)
    plugins = containerd.network_plugins() if image else None
    with Guest(TOPOLOGIES["four-nodes"], has_network=True) as guest:
        worker = RealWorker(guest, name)
        port = urlsplit(plane.address).port
        worker.call("inside_relay", port)
        start_containerd(guest, files, runtime)
        if image is not None:
            worker.call("inside_network", str(plugins))
            worker.call("inside_image", str(files), str(image))
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
            list(exporter) if image is None else None,
            seconds=START_SECONDS_MAX,
        )
        guest.call("tests.twin.kubelet:wait_for_images", seconds=START_SECONDS_MAX)
        if image is not None:
            worker.call("inside_wait_for_image", seconds=IMAGE_SECONDS_MAX)
            yield worker
            return
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

    # Pods know it as a service, whose address somebody must have.
    subprocess.run(["ip", "address", "add", f"{SERVICE_ADDRESS}/32", "dev", "lo"], check=True)

    async def serve() -> None:
        await asyncio.start_server(connected, SERVICE_ADDRESS, 443)
        server = await asyncio.start_server(connected, "127.0.0.1", port)
        async with server:
            await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()


def inside_network(plugins: str) -> None:
    """Pods get a network of their own, which ends on their host."""
    (kubelet.RUNTIME / "cni-bin").rmdir()
    (kubelet.RUNTIME / "cni-bin").symlink_to(plugins)
    ranges = [[{"subnet": "10.254.77.0/24"}]]
    ipam = {"type": "host-local", "dataDir": "/run/ipam", "ranges": ranges}
    ipam["routes"] = [{"dst": "0.0.0.0/0"}]
    text = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": ipam}]}
    place = kubelet.RUNTIME / "cni-conf" / "10-none.conflist"
    place.with_suffix(".new").write_text(json.dumps(text))
    place.with_suffix(".new").rename(place)


def inside_image(files: str, archive: str) -> None:
    """Begins to give the runtime our image."""
    ctr = [f"{files}/bin/ctr", "-a", str(kubelet.RUNTIME / "containerd.sock"), "-n", "k8s.io"]
    kubelet._started("import own", [*ctr, "images", "import", archive])


def inside_wait_for_image() -> None:
    """Until the runtime has it."""
    process = kubelet._processes.pop("import own")
    code = process.wait(IMAGE_SECONDS_MAX)
    assert code == 0, kubelet._log("import own") + kubelet._log("containerd")[-1000:]


def inside_pod_log(pod: str) -> str:
    """The end of what the containers of pods said whose name begins so."""
    found = sorted(Path("/run/pod-logs").glob(f"*_{pod}*/*/*.log"))
    return "\n".join(f"{path}: {path.read_text()[-3000:]}" for path in found)


def inside_start(
    program: str,
    files: str,
    config: dict[str, Any],
    name: str,
    kubeconfig: str,
    exporter_kubeconfig: str,
    certificate: list[str],
    options: list[str] | None,
) -> None:
    """Starts the kubelet as a host of the cluster, and the exporter beside it if wanted."""
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
    if options is None:
        return
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


def inside_confinement() -> list[tuple[str, dict[str, str]]]:
    """Of each of our processes in a pod: its command, and what the kernel lets it do."""
    found = []
    for process in sorted(Path("/proc").glob("[0-9]*")):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"/usr/local/bin/numalign" not in words:
                continue
            lines = (process / "status").read_text().splitlines()
            facts = {key: rest.strip() for key, _, rest in (ln.partition(":") for ln in lines)}
            facts["Uid"] = facts["Uid"].split()[0]
            mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
            root = next(fields[5] for fields in mounts if fields[4] == "/")
            wanted = ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
            own = {key: facts[key] for key in wanted} | {"root": root.split(",")[0]}
            command = words[words.index(b"/usr/local/bin/numalign") + 1].decode()
            found.append((command, own))
    return found


def inside_cpusets(uids: list[str]) -> list[str]:
    """The CPUs of the one container of each of these pods, as the kernel has them."""
    found = []
    for uid in uids:
        groups = sorted(kubelet.CGROUPS.glob(f"kubepods/**/pod{uid}/*/cpuset.cpus"))
        texts = [path.read_text().strip() for path in groups]
        found += [text for text in texts if text]
    return found
