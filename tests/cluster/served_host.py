"""A host for the exporter: a PodResources socket, state files and a configuration, all real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.fleet import FleetHost, HostPlan

from numalign.adapters.grpc.podresources import PodResources
from numalign.adapters.local.state_files import StateDirectory
from numalign.core.pod import Pod
from numalign.core.views.podresources import resources_view
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import state_files
from numalign.wire.kubelet.config import document_of


class ServedHost:
    """One host that admits pods, writes the state files and answers on its socket."""

    def __init__(self, plan: HostPlan, place: Path) -> None:
        self.host = FleetHost(plan)
        self.name = plan.name
        place.mkdir(parents=True, exist_ok=True)
        self.state = place / "kubelet"
        self.socket = self.state / "pod-resources" / "kubelet.sock"
        self.config = place / "config.yaml"
        self.config.write_text(json.dumps(document_of(self.host.config)))
        self._files = StateDirectory(self.state, [device_checkpoint.FOLDER])
        self._files.prepare()
        self._write()

    @property
    def options(self) -> list[str]:
        """What the exporter must be told to look here."""
        return [
            f"--host-name={self.name}",
            f"--machine={self.host.plan.shape}",
            f"--pod-resources={self.socket}",
            f"--kubelet-config={self.config}",
            f"--state={self.state}",
        ]

    def admit(self, pod: Pod) -> None:
        """Gives the pod what it asks for."""
        refused = self.host.admit(pod)
        assert refused is None, refused
        self._write()

    def end(self, uid: str) -> None:
        """Takes it back."""
        self.host.end(uid)
        self._write()

    def _write(self) -> None:
        snapshot = self.host.snapshot
        found = state_files.encoded(snapshot.state, snapshot.host.settings)
        for name, data in found.items():
            self._files.write(state_files.PLACES[name], data)

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Answers on the socket meanwhile, from a thread of its own."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        def view():
            return resources_view(self.host.snapshot.host, self.host.snapshot.state)

        async def made():
            return PodResources(self.socket, view)

        def call(work):
            return asyncio.run_coroutine_threadsafe(work, loop).result(10)

        try:
            server = call(made())
            call(server.start())
            try:
                yield
            finally:
                call(server.stop())
        finally:  # also when it could not start: a thread that goes on keeps pytest from ending
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()
