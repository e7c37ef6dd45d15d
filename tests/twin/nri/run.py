"""``python -m tests.twin.nri.run [CONFIGURATION...]``: the kubelet's managers beside our plugin.

The same steps are given to a real kubelet with its own managers and, in another guest of the same
shape, to a kubelet without managers and our plugin. A table says, pod by pod, whether both gave the
same CPUs and memory nodes. Devices are left out: a kubelet without managers gives them before
anybody asks for CPUs, so that what follows could not be compared any more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.real.guest import TOPOLOGIES, Guest
from tests.real.kept import say
from tests.twin import sequences
from tests.twin.configurations import CONFIGURATIONS, Configuration
from tests.twin.sequences import Step
from tests.twin.worker import CALL_SECONDS_MAX, Worker, clock, worker

INSIDE = "tests.twin.nri.inside"
VERSION = "1.36.4"
DRAWN = 8  # steps after those by hand
REFUSED = "refused"
OFF = {
    "cpuManagerPolicy": "none",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "cpuManagerPolicyOptions": {},
    "topologyManagerPolicyOptions": {},
    "reservedMemory": [],
}
FILES = ("cpuset.cpus", "cpuset.mems")


def declared(pod: Mapping[str, Any]) -> str:
    """What our admission policy writes on a pod; static pods do not pass it."""
    parts = []
    for key in ("initContainers", "containers"):
        for one in pod["spec"].get(key, ()):
            kind = "app" if key == "containers" else "init"
            kind = "sidecar" if one.get("restartPolicy") == "Always" else kind
            asked = one.get("resources", {}).get("requests", {})
            amounts = ",".join(f"{name}={amount}" for name, amount in asked.items())
            parts.append(f"{kind}/{one['name']}:{amounts}")
    return ";".join(parts)


def with_list(pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """The pod with the list of its containers, and whatever it chooses."""
    ours = {"numalign.io/containers": declared(pod)}
    ours |= {f"numalign.io/{key}": text for key, text in annotations.items()}
    return {**pod, "metadata": {**pod["metadata"], "annotations": ours}}


class NriWorker:
    """A guest with containerd, an unchanged kubelet without managers, and the plugin."""

    def __init__(self, guest: Guest, configuration: Configuration) -> None:
        self.configuration = configuration
        self.guest = guest
        off = replace(configuration, settings={**configuration.settings, **OFF})
        self.worker = Worker(guest, off, VERSION)
        self.uids: dict[str, str] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of the plugin's side."""
        return self.guest.call(f"{INSIDE}:{name}", *arguments, seconds=CALL_SECONDS_MAX)

    def start_plugin(self) -> None:
        """Starts the plugin with the configuration that the kubelet had in the record."""
        self.call("start", self.configuration.kubelet)

    def apply(self, pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
        """Gives it a pod."""
        self.uids[pod["metadata"]["name"]] = pod["metadata"]["uid"]
        found: dict[str, Any] = self.call("apply", with_list(pod, **annotations))
        return found

    def delete(self, name: str) -> None:
        """Takes a pod away."""
        self.call("delete", name, self.uids.pop(name))


@contextmanager
def nri_worker(configuration: Configuration) -> Iterator[NriWorker]:
    """A running worker with a synchronized plugin."""
    with Guest(TOPOLOGIES[configuration.topology]) as guest:
        guest.call(f"{INSIDE}:load")
        found = NriWorker(guest, configuration)
        found.worker.start()
        found.start_plugin()
        yield found


@dataclass(frozen=True, slots=True)
class Row:
    """One pod of the table."""

    pod: str
    asked: str
    kubelet: str
    plugin: str

    @property
    def is_same(self) -> bool:
        return self.kubelet == self.plugin


def steps_of(name: str, drawn: int) -> list[Step]:
    """The steps of a configuration without devices, and with restarts of all that can restart."""
    found: list[Step] = []
    for step in sequences.whole(name, drawn):
        if "apply" in step:
            found.append({"apply": _without_devices(step["apply"])})
        elif "start" not in step:
            found.append({"restart": True} if "stop" in step else step)
    return found


def _without_devices(pod: dict[str, Any]) -> dict[str, Any]:
    spec = dict(pod["spec"])
    for key in ("initContainers", "containers"):
        if key in spec:
            spec[key] = [_bare(one) for one in spec[key]]
    return {**pod, "spec": spec}


def _bare(one: dict[str, Any]) -> dict[str, Any]:
    resources = {
        kind: {name: amount for name, amount in amounts.items() if "/" not in name}
        for kind, amounts in one.get("resources", {}).items()
    }
    return {**one, "resources": resources}


def _placed(groups: Mapping[str, Mapping[str, str]]) -> str:
    return " ".join(
        f"{name}:{'/'.join(files.get(file, '') or '-' for file in FILES)}"
        for name, files in sorted(groups.items())
        if name
    )


def managed(configuration: Configuration, steps: list[Step]) -> dict[str, dict[str, Any]]:
    """What a kubelet with its own managers does with each pod."""
    at = clock()
    found: dict[str, dict[str, Any]] = {}
    with worker(configuration, VERSION) as running:
        for step in steps:
            if "delete" in step and step["delete"] not in running.uids:
                continue
            result = running.step(step)
            if "apply" in step and result is not None:
                name = step["apply"]["metadata"]["name"]
                found[name] = result
                say(f"{at()} kubelet: {name} {result['phase']} {_placed(result['cgroups'])}")
                if result["phase"] == "Failed":
                    running.step({"delete": name})
    return found


def compared(name: str, drawn: int = DRAWN) -> list[Row]:
    """Gives the same steps to both sides, and compares pod by pod."""
    at = clock()
    steps = steps_of(name, drawn)
    theirs = managed(CONFIGURATIONS[name], steps)
    rows: list[Row] = []
    with nri_worker(CONFIGURATIONS[name]) as worker:
        say(f"{at()} {name}: kubelet and plugin run")
        for step in steps:
            if "apply" in step:
                rows.append(_applied(worker, step["apply"], theirs))
                row = rows[-1]
                same = "same" if row.is_same else "DIFFERENT"
                say(f"{at()} {row.pod} {same}: kubelet {row.kubelet}, plugin {row.plugin}")
            elif "delete" in step:
                if step["delete"] in worker.uids:
                    worker.delete(step["delete"])
            elif "restart" in step or "stop" in step:
                worker.worker.call("stop_kubelet")
                worker.call("stop")
            if "restart" in step or "start" in step:
                worker.start_plugin()
                worker.worker.start_kubelet()
    return rows


def _applied(worker: NriWorker, pod: dict[str, Any], results: Mapping[str, dict[str, Any]]) -> Row:
    name = pod["metadata"]["name"]
    theirs, ours = results[name], worker.apply(pod)
    if ours["refused"]:
        # The kubelet would go on trying, and it would start when others leave; under its own
        # managers a refused pod is over.
        worker.delete(name)
    refused = theirs["phase"] == "Failed"
    return Row(
        name,
        declared(pod),
        REFUSED if refused else _placed(theirs["cgroups"]),
        REFUSED if ours["refused"] else _placed(ours["cgroups"]),
    )


def main(names: list[str]) -> int:
    """Prints the table of each configuration; 1 if a pod differs."""
    differ = 0
    for name in names:
        for row in compared(name):
            sys.stdout.write(
                f"| {name} | {row.pod} | {row.asked} | {row.kubelet} | {row.plugin} | "
                f"{'same' if row.is_same else 'different'} |\n"
            )
            differ += not row.is_same
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(CONFIGURATIONS)))
