"""A real agent before a real containerd, for tests."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.apps.agent.processes import AgentProcess, found_below, manifest
from tests.real.containerd import BUSYBOX, remove_cgroups

from numalign.adapters.cri.client import CriClient
from numalign.adapters.cri.runtime import OWNER
from numalign.adapters.local.paths import cgroup_parent
from numalign.apps.agent.runtimes.containers import owner_of
from numalign.core.errors import PeerError

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerReconcilePeriod: 1s
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0"
"""
CONFIG = """
apiVersion: numalign.io/v1
kind: AgentConfiguration
backoffSeconds: 0.5
kubeletConfig: {path}
"""


class CriAgent(AgentProcess):
    """``numalign agent --runtime cri``; what it started in the runtime is removed at the end."""

    wait_seconds = 90.0  # a pod is some processes of containerd's too

    def __init__(self, runtime, *, reconciles=False):
        arguments = ["--runtime", "cri", "--cri-socket", f"unix://{runtime.socket}"]
        super().__init__(config="", arguments=arguments)
        text = "apiVersion: numalign.io/v1\nkind: AgentConfiguration\nbackoffSeconds: 0.5\n"
        if reconciles:
            (self.root / "kubelet.yaml").write_text(KUBELET)
            text = CONFIG.format(path=self.root / "kubelet.yaml")
        (self.root / "config.yaml").write_text(text)
        self.runtime = runtime

    def __enter__(self):
        try:
            return super().__enter__()
        except BaseException:
            self.clean_up()
            raise

    def labels(self):
        return {OWNER: owner_of(self.state)}

    def asked(self, work):
        """The answer of the runtime to a question such as ``lambda c: c.sandboxes({})``."""

        async def ask():
            client = CriClient(self.runtime.socket)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(ask())

    def sandboxes(self):
        return self.asked(lambda client: client.sandboxes(self.labels()))

    def containers(self):
        return self.asked(lambda client: client.containers(self.labels()))

    def uid(self, pod):
        return self.pod_list()[pod]["metadata"]["uid"]

    def status(self, pod, container="c"):
        status = self.pod_list()[pod]["status"]
        both = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
        return next(found for found in both if found["name"] == container)

    def waiting(self, pod, container="c"):
        return self.status(pod, container)["state"].get("waiting", {})

    def placed(self, pod, container="c"):
        return self.pod_list()[pod]["numalign"]["containers"][container]

    def pid(self, pod, container="c"):
        return self.placed(pod, container)["pid"]

    def file(self, pod, name, container="c"):
        """A file of the container's cgroup, found as the kernel tells it and not as we do."""
        controller = name.partition(".")[0]
        for line in Path(f"/proc/{self.pid(pod, container)}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return Path(f"/sys/fs/cgroup/{controller}{path}") / name
        return Path(f"/sys/fs/cgroup{path}") / name

    def value(self, pod, name, container="c"):
        return self.file(pod, name, container).read_text().strip()

    def cgroups(self):
        """All groups below ours, in every hierarchy."""
        tops = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
        places = [top / cgroup_parent(self.state) for top in tops]
        found = [path for place in places for path in found_below(place, "**/pod*")]
        return [path for path in found if path.is_dir()]

    def logs(self, pod, *words):
        command = [sys.executable, "-m", "numalign", "logs", pod, *words]
        command += ["--socket", str(self.state / "agent.sock")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def delete(self, pod):
        return self.request("DELETE", f"/pods/{self.uid(pod)}")

    def clean_up(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for one in self.sandboxes():
            self.until(lambda one=one: self._is_removed(one.id), "the sandbox to be removed")
        remove_cgroups(cgroup_parent(self.state))
        super().clean_up()

    def _is_removed(self, sandbox):
        """An agent that was killed may have left a container that is just being started."""
        try:
            self.asked(lambda client: client.stop_sandbox(sandbox))
            self.asked(lambda client: client.remove_sandbox(sandbox))
        except PeerError:
            return False
        return True


def pod(name, *, script=None, image=BUSYBOX, container=None, **arguments):
    """A pod of one container on the small image; ``container`` has more members of it."""
    if script is not None:
        arguments["command"] = ("/bin/sh", "-c", script)
    found = manifest(name, **arguments)
    found["spec"]["containers"][0] |= {"image": image, **(container or {})}
    return found
