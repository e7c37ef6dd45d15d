"""A private Kubernetes control plane of real programs, on loopback and in one directory.

    with control_plane(tmp_path) as plane:
        plane.kubectl("get", "nodes")

RBAC is on; ``plane.kubeconfig`` is the administrator's, ``plane.account(namespace, name)`` gives
one for a ServiceAccount with a token of its own. Ready in about five seconds.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.real.kept import MissingError
from tests.real.kubernetes import CONTROL_PLANE, programs

VERSION: Final = "1.36.4"
READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 3.0  # the API server waits for its watches to end
CALL_SECONDS_MAX: Final = 60.0
TOKEN_SECONDS: Final = 7200
SERVICES: Final = "192.0.2.0/24"
SERVICE_ADDRESS: Final = "192.0.2.1"  # of the API server, as pods know it
ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLERS: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses at this moment."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


@contextlib.contextmanager
def control_plane(
    place: Path,
    *,
    version: str = VERSION,
    has_scheduler: bool = True,
    scheduler_config: str | None = None,
    api_options: Sequence[str] = (),
    has_accounts: bool = False,
    controller_options: Sequence[str] = (),
) -> Iterator[ControlPlane]:
    """A running control plane; all of it is stopped at the end. MissingError without Go.

    ``has_accounts``: pods get the token of their ServiceAccount, which must be there.
    """
    if not has_accounts:
        # Pods that never run need no token.
        api_options = ["--disable-admission-plugins=ServiceAccount", *api_options]
    binaries = programs(version, CONTROL_PLANE)
    plane = ControlPlane(binaries, place, api_options, controller_options)
    try:
        plane.start()
        if has_scheduler:
            plane.start_scheduler(scheduler_config)
        yield plane
    finally:
        plane.stop()


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each with its log."""

    def __init__(
        self,
        binaries: Path,
        place: Path,
        api_options: Sequence[str] = (),
        controller_options: Sequence[str] = (),
    ) -> None:
        self.binaries = binaries
        self._controller_options = tuple(controller_options)
        self._api_options = tuple(api_options)  # of the API server, such as feature gates
        self.place = place
        self.kubeconfig = place / "kubeconfig"
        ports = free_ports(5)
        self._etcd, self._peer, self._api, self._controllers, self._scheduler = ports
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._token = secrets.token_hex(16)

    @property
    def address(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self._api}"

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run, by the name of the program."""
        return {name: process.pid for name, process in self._running.items()}

    # Starting and stopping.

    def start(self) -> None:
        """Starts all but the scheduler, and waits until the API server is ready."""
        if shutil.which("openssl") is None:
            raise MissingError("openssl is not installed: there is no key for service accounts")
        self.place.mkdir(parents=True, exist_ok=True)
        key = self.place / "accounts.key"
        command = ["openssl", "genrsa", "-out", str(key), "2048"]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        tokens = self.place / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f"{self._token},admin,admin,system:masters\n")
        self._start_etcd()
        self.start_api_server()
        self._write_kubeconfig(self.kubeconfig, self._token)
        self._start_controllers()

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        self._run(
            ETCD,
            f"--data-dir={self.place / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def start_api_server(self) -> None:
        """Starts the API server on the port that it always has, and waits until it is ready."""
        key = self.place / "accounts.key"
        self._run(
            API_SERVER,
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._api}",
            f"--cert-dir={self.place / 'certs'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.place / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICES}",
            *self._api_options,
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._is_ready():
            self._still_runs(API_SERVER)
            if time.monotonic() > deadline:
                raise RuntimeError(f"kube-apiserver is not ready: {self._last_words(API_SERVER)}")
            time.sleep(0.1)

    def stop_api_server(self) -> None:
        """Stops the API server alone; everything that it stored stays."""
        self._end(API_SERVER)

    def _start_controllers(self) -> None:
        self._run(
            CONTROLLERS,
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.place / 'accounts.key'}",
            f"--root-ca-file={self._certificate}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._controllers}",
            # Hosts of tests send no heartbeats: what their status says stays true.
            "--node-monitor-grace-period=24h",
            *self._controller_options,
        )

    def start_scheduler(self, config: str | None = None) -> None:
        """Starts the stock scheduler, with a KubeSchedulerConfiguration if given.

        In the text of the configuration ``{kubeconfig}`` stands for the administrator's.
        """
        arguments = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"]
        if config is not None:
            file = self.place / "scheduler.yaml"
            file.write_text(config.replace("{kubeconfig}", str(self.kubeconfig)))
            arguments = [f"--config={file}"]
        self._run(
            SCHEDULER,
            *arguments,
            "--bind-address=127.0.0.1",
            f"--secure-port={self._scheduler}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
        )

    def stop_scheduler(self) -> None:
        """Stops the stock scheduler alone."""
        self._end(SCHEDULER)

    def stop(self) -> None:
        """Stops everything; the API server before its etcd, without which it would not end."""
        for name in (SCHEDULER, CONTROLLERS, API_SERVER, ETCD):
            self._end(name)

    def _run(self, name: str, *arguments: str) -> None:
        assert name not in self._running, f"{name} already runs"
        with (self.place / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self.binaries / name, *arguments],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _end(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _still_runs(self, name: str) -> None:
        if self._running[name].poll() is not None:
            raise RuntimeError(f"{name} has ended: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")[-2000:]

    @property
    def _certificate(self) -> Path:
        return self.place / "certs" / "apiserver.crt"  # signed by itself

    def _is_ready(self) -> bool:
        try:
            context = ssl.create_default_context(cafile=self._certificate)
            request = urllib.request.Request(
                f"{self.address}/readyz", headers={"Authorization": f"Bearer {self._token}"}
            )
            with urllib.request.urlopen(request, context=context, timeout=2) as answer:
                return answer.read() == b"ok"
        except (OSError, urllib.error.URLError):
            return False

    # Using it.

    def _write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> None:
        cluster = {"server": self.address, "certificate-authority": str(self._certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [
                {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            ],
            "current-context": "x",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))

    def account(self, namespace: str, name: str, *, host: str = "") -> Path:
        """A kubeconfig with a token of a ServiceAccount, which must exist.

        With ``host`` the token says, as a pod's does, on which host its bearer runs.
        """
        bound = ["--bound-object-kind=Node", f"--bound-object-name={host}"] if host else []
        token = self.kubectl(
            "create", "token", name, "-n", namespace, f"--duration={TOKEN_SECONDS}s", *bound
        )
        path = self.place / f"kubeconfig-{namespace}-{name}-{host}"
        self._write_kubeconfig(path, token.strip(), namespace)
        return path

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints as the administrator; RuntimeError with its words if it fails."""
        done = subprocess.run(
            [self.binaries / "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *manifests: str) -> None:
        """Applies manifests, as texts."""
        self.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(manifests))

    def objects(self, *arguments: str) -> Sequence[dict]:
        """The items of ``kubectl get ARGUMENTS -o json``."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))["items"]
