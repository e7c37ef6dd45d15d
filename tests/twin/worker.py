"""The real kubelet in a guest: started, given steps, and asked what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.peers.build import NUMA_PLUGIN, built
from tests.real import containerd, kubernetes
from tests.real.guest import TOPOLOGIES, Guest
from tests.twin import kubelet
from tests.twin.configurations import Configuration
from tests.twin.sequences import Step

INSIDE = "tests.twin.kubelet"
CALL_SECONDS_MAX = 900.0


def start_containerd(guest: Guest, files: Path, more: str = "") -> None:
    """Starts containerd inside; ``wait_for_images`` says when it can be used.

    ``more``: further configuration.
    """
    text = containerd.config_text(kubelet.RUNTIME, containerd.crun(), major=2) + more
    guest.call(f"{INSIDE}:start_containerd", str(files), text, seconds=CALL_SECONDS_MAX)


class Worker:
    """A guest with containerd, a kubelet of one version, and its device plugins."""

    def __init__(self, guest: Guest, configuration: Configuration, version: str) -> None:
        self.guest = guest
        self.configuration = configuration
        self.version = version
        self.program = str(kubernetes.programs(version, ["kubelet"]) / "kubelet")
        self.files = containerd.fetched("sid")
        self.plugin = str(built(NUMA_PLUGIN))
        self.uids: dict[str, str] = {}  # of the manifests that are there, by name

    def call(self, name: str, *arguments: Any) -> Any:
        """A function inside."""
        return self.guest.call(f"{INSIDE}:{name}", *arguments, seconds=CALL_SECONDS_MAX)

    def start(self) -> None:
        """Starts everything."""
        start_containerd(self.guest, self.files)
        self.start_kubelet()
        self.call("wait_for_images")
        self.start_plugins()

    def start_kubelet(self) -> None:
        """Starts the kubelet, for the first time or again."""
        self.call("start_kubelet", self.program, str(self.files), self.configuration.kubelet)

    def start_plugins(self) -> None:
        """Starts the device plugins."""
        place = str(kubelet.DEVICES)
        self.call("start_plugins", self.plugin, self.configuration.devices, place)

    def step(self, step: Step) -> dict[str, Any] | None:
        """Does one step and gives its result as records have it."""
        if "apply" in step:
            meta = step["apply"]["metadata"]
            self.uids[meta["name"]] = meta["uid"]
            result: dict[str, Any] = self.call("apply", step["apply"])
            return result
        if "delete" in step:
            self.call("delete", step["delete"], self.uids.pop(step["delete"]))
            return None
        if "stop" in step or "restart" in step:
            self.call("stop_kubelet")
            # Gone before the kubelet is back: else it is a matter of luck which is first.
            self.call("stop_plugins", str(kubelet.DEVICES))
        if "start" in step or "restart" in step:
            self.start_kubelet()
            result = self.call("restarted", list(self.uids.values()))
            self.start_plugins()
            return result
        return None


@contextmanager
def worker(
    configuration: Configuration, version: str, *, first: str | None = None
) -> Iterator[Worker]:
    """A running worker; ``first`` is called inside before anything else.

    MissingError where something that it needs is missing.
    """
    with Guest(TOPOLOGIES[configuration.topology]) as guest:
        if first is not None:
            guest.call(first)
        found = Worker(guest, configuration, version)
        found.start()
        yield found


def shown(step: Step, result: dict[str, Any] | None) -> str:
    """One line about a step."""
    if "apply" in step:
        assert result is not None, "an applied pod has a result"
        name = step["apply"]["metadata"]["name"]
        return f"{name} {result['phase']} {result['reason'] or ''}"
    if "delete" in step:
        return f"delete {step['delete']}"
    words = " ".join(key for key in step if key != "result")
    return words if result is None else f"{words} {result['pods']}"


def clock() -> Callable[[], str]:
    """The seconds since now, for progress lines."""
    start = time.monotonic()
    return lambda: f"{time.monotonic() - start:5.0f} s"
