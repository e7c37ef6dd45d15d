"""The plugin as a real process, and pods made through CRI as a kubelet makes them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tests.real.containerd import BUSYBOX, remove_cgroups
from tests.sockets import make_short_directory

from numalign.adapters.cri.client import CriClient
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits, shares_of
from numalign.wire.grpc._generated import cri_v1_pb2 as cri
from numalign.wire.grpc.cri import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from numalign.wire.grpc.cri_values import ContainerSpec, Resources, SandboxSpec

WAIT_SECONDS = 60.0
HOST_FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0"
"""
MIB = 1 << 20


def until(condition, what: str, seconds: float = WAIT_SECONDS):
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.02)


class NriPlugin:
    """``numalign nri`` with directories of its own."""

    def __init__(self, socket: Path, *, host_file: str = HOST_FILE):
        self.root = make_short_directory("nn-")
        self.state = self.root / "s"
        self.kubelet = self.root / "kubelet"
        self.kubelet.mkdir()
        self.config = self.root / "nri.yaml"
        self.config.write_text(host_file)
        self.socket = socket
        self.process = None
        self.log = self.root / "log"

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "numalign", "nri", "--socket", str(self.socket)),
            *("--config", str(self.config), "--state-dir", str(self.state), "--listen", ""),
            *("--kubelet-dir", str(self.kubelet)),
            *("--kubelet-config", str(self.kubelet / "config.yaml")),
        ]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self, *, wait=True):
        before = self.count("synchronized")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        if wait:
            self.until_synchronized(before)

    def until_synchronized(self, before: int):
        def is_there():
            assert self.process.poll() is None, f"the plugin ended: {self.said()}"
            return self.count("synchronized") > before

        until(is_there, f"the plugin to be synchronized: {self.said()[-2000:]}")

    def count(self, event: str) -> int:
        return self.said().count(f"event={event} ")

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)


class Pods:
    """Pods in a runtime, with cgroups and limits as a kubelet names and sets them."""

    def __init__(self, socket: Path):
        self.client = CriClient(socket)
        self.root = f"numalign-nri-{os.getpid()}"
        self.logs = make_short_directory("nl-")
        self.specs: dict[str, SandboxSpec] = {}
        self.created: dict[str, list[str]] = {}
        self.attempts: dict[tuple[str, str], int] = {}

    async def close(self):
        await self.client.close()
        shutil.rmtree(self.logs, ignore_errors=True)
        remove_cgroups(self.root)

    async def pod(self, name: str, *, qos="", annotations=None, uid="", attempt=0) -> str:
        uid = uid or str(uuid.uuid4())
        parent = "/".join(part for part in (self.root, "kubepods", qos, f"pod{uid}") if part)
        spec = SandboxSpec(
            uid=uid,
            name=name,
            namespace="default",
            attempt=attempt,
            log_directory=str(self.logs),
            cgroup_parent=f"/{parent}",
            # A kubelet's, by which CRI-O knows pods and containers.
            labels={POD_NAMESPACE: "default", POD_NAME: name, POD_UID: uid},
            annotations=annotations or {},
        )
        sandbox = await self.client.run_sandbox(spec)
        self.specs[sandbox] = spec
        return sandbox

    async def create(self, sandbox: str, name: str, milli=0, memory=64 * MIB, *, limited=True):
        """A container with so many thousandths of a CPU, and with limits if it is Guaranteed."""
        key = (sandbox, name)
        self.attempts[key] = self.attempts.get(key, -1) + 1
        limits = Limits(
            cpu_shares=shares_of(milli),
            cpu_quota_us=milli * 100 if limited and milli else None,
            memory_bytes_max=memory if limited else None,
        )
        spec = ContainerSpec(
            name=name,
            attempt=self.attempts[key],
            labels={**self.specs[sandbox].labels, CONTAINER_NAME: name},
            image=BUSYBOX,
            image_id=BUSYBOX,
            command=("/bin/sleep", "100000"),
            log_path=f"{sandbox[:8]}-{name}.log",
            resources=Resources(limits=limits),
        )
        container = await self.client.create(sandbox, self.specs[sandbox], spec)
        self.created.setdefault(sandbox, []).append(container)
        return container

    async def run(self, sandbox: str, name: str, milli=0, **more) -> str:
        container = await self.create(sandbox, name, milli, **more)
        await self.client.start(container)
        return container

    async def resize(self, container: str, milli: int, memory: int = 0):
        wish = cri.LinuxContainerResources(
            cpu_shares=shares_of(milli), cpu_quota=milli * 100, cpu_period=100_000
        )
        if memory:
            wish.memory_limit_in_bytes = memory
        request = cri.UpdateContainerResourcesRequest(container_id=container, linux=wish)
        await self.client._call(
            "/runtime.v1.RuntimeService/UpdateContainerResources", request.SerializeToString(), 5.0
        )

    async def end(self, sandbox: str):
        # As a kubelet does, containers first. CRI-O would give each of them ten seconds to end, and
        # containerd locks up for ever if a plugin registers while it removes a sandbox that has
        # containers: it takes its lock against that a second time for each of them.
        for container in self.created.pop(sandbox, ()):
            with suppress(PeerError):
                await self.client.stop(container, 0)
                await self.client.remove(container)
        await self.client.stop_sandbox(sandbox)
        await self.client.remove_sandbox(sandbox)

    def is_there(self, sandbox: str, container: str) -> bool:
        try:
            self.cpus(sandbox, container)
        except OSError:
            return False
        return True

    def cpus(self, sandbox: str, container: str) -> str:
        return self.cgroup(sandbox, container, "cpuset", "cpuset.cpus")

    def cgroup(self, sandbox: str, container: str, controller: str, name: str) -> str:
        parent = self.specs[sandbox].cgroup_parent.lstrip("/")
        # Each version of cgroups has its own place, and CRI-O writes itself before an id.
        places = [
            top / parent / group / name
            for top in (Path("/sys/fs/cgroup") / controller, Path("/sys/fs/cgroup"))
            for group in (container, f"crio-{container}")
        ]
        return next((one for one in places if one.exists()), places[0]).read_text().strip()


def with_pods(runtime, work):
    """Runs an asynchronous test against the pods of a runtime, which are gone at the end."""

    async def main():
        pods = Pods(runtime.socket)
        try:
            await work(pods)
        finally:
            for sandbox in list(pods.specs):
                try:
                    await pods.end(sandbox)
                except Exception as error:
                    print(error)  # noqa: T201
            await pods.close()

    asyncio.run(main())
