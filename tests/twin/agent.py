"""Runs inside the guest: our agent beside the kubelet, with the same configuration and pods."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import multiprocessing.forkserver
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from tests.twin.kubelet import CGROUPS, ENDED, NotSettledError, group_files, until

from numalign.wire.checkpoints.devices import FOLDER
from numalign.wire.checkpoints.state_files import PLACES

STATE: Final = Path("/run/agent")
MANIFESTS: Final = Path("/run/agent-manifests")
CONFIG: Final = Path("/run/agent.yaml")
LOG: Final = Path("/run/agent.log")
PARENT: Final = "numalign-twin"
DEVICES: Final = STATE / FOLDER
SECONDS_MAX: Final = 400.0

# An emulated CPU takes half a minute to load the agent; so one process does it once, and every
# agent is a fork of that one.
_forks = multiprocessing.get_context("forkserver")
_processes: list[ForkServerProcess] = []


def load() -> None:
    """Begins to load the agent's code beside whatever else goes on."""
    _forks.set_forkserver_preload(["numalign.cli.agent.agent", "numalign.cli.agent.process"])
    multiprocessing.forkserver.ensure_running()


def _run(words: Sequence[str]) -> None:
    from numalign.cli.main import main

    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.setsid()
    os._exit(main(words))


def start(kubelet_config: str, version: str) -> None:
    """Starts the agent, for the first time or again; ``wait`` says when it answers."""
    MANIFESTS.mkdir(exist_ok=True)
    CONFIG.write_text(
        json.dumps(
            {
                "apiVersion": "numalign.io/v1",
                "kind": "AgentConfiguration",
                "kubernetes": version.rpartition(".")[0],
                "fidelity": "kubelet",
                "kubeletConfig": kubelet_config,
                "cgroupParent": PARENT,
            }
        )
    )
    words = ["agent", "--config", str(CONFIG), "--pods", str(MANIFESTS)]
    words += ["--state-dir", str(STATE), "--listen", ""]
    process = _forks.Process(target=_run, args=(words,))
    process.start()
    _processes[:] = [process]


def wait() -> None:
    """Until the agent answers."""
    [process] = _processes

    def is_up() -> bool:
        if not process.is_alive():
            raise NotSettledError(f"the agent ended: {LOG.read_text()[-1500:]}")
        with suppress(OSError):
            pods()
            return True
        return False

    until(is_up, "the agent answers", SECONDS_MAX)


def stop() -> None:
    """Kills the agent; containers go on."""
    [process] = _processes
    process.kill()
    process.join()
    _processes.clear()


class _Unix(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS_MAX)
        self.sock.connect(str(STATE / "agent.sock"))


def pods() -> dict[str, dict[str, Any]]:
    """What the agent says of its pods, by uid."""
    line = _Unix("agent")
    try:
        line.request("GET", "/pods")
        answer = line.getresponse()
        items = json.loads(answer.read())["items"]
    finally:
        line.close()
    return {item["metadata"]["uid"]: item for item in items}


def submit(manifest: Mapping[str, Any]) -> None:
    """Gives the agent a manifest."""
    name = manifest["metadata"]["name"]
    new = MANIFESTS / f".{name}"
    new.write_text(json.dumps(manifest))
    new.rename(MANIFESTS / f"{name}.json")


def decided(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Waits until a pod runs or was refused, and says how it is."""
    meta = manifest["metadata"]
    found: dict[str, Any] = {}

    def is_settled() -> bool:
        nonlocal found
        found = (pods().get(meta["uid"]) or {}).get("status") or {}
        return found.get("phase") in ("Running", *ENDED)

    until(is_settled, f"{meta['name']} runs: {found}", SECONDS_MAX)
    return {
        "phase": found["phase"],
        "reason": found.get("reason"),
        "message": found.get("message"),
        **state_files(),
        "cgroups": cgroups(meta["uid"]),
    }


def delete(name: str) -> None:
    """Takes a manifest away."""
    (MANIFESTS / f"{name}.json").unlink()


def forgotten(uid: str) -> None:
    """Waits until the agent, if it runs, has forgotten a pod."""
    if _processes:
        until(lambda: uid not in pods(), f"{uid} goes", SECONDS_MAX)


def settled(uids: Sequence[str]) -> dict[str, Any]:
    """What became of all pods after the agent was started again."""

    def is_settled() -> bool:
        found = pods()
        return set(found) == set(uids) and all(
            found[uid]["status"]["phase"] in ("Running", *ENDED) for uid in uids
        )

    until(is_settled, "all pods are decided about", SECONDS_MAX)
    return {
        uid: [pod["status"]["phase"], pod["status"].get("reason")] for uid, pod in pods().items()
    }


def state_files() -> dict[str, str | None]:
    """The bytes of the state files."""
    paths = {name: STATE / place for name, place in PLACES.items()}
    return {name: p.read_text() if p.exists() else None for name, p in paths.items()}


def put_state_files(files: Mapping[str, str | None]) -> None:
    """Makes a new state directory with a copy of somebody's state; the agent must not run."""
    assert not _processes, "the agent is stopped"
    shutil.rmtree(STATE)
    DEVICES.mkdir(parents=True)
    for name, text in files.items():
        if text is not None:
            (STATE / PLACES[name]).write_text(text)


def cgroups(uid: str) -> dict[str, dict[str, str]]:
    """The cgroup files of a pod ("") and of its containers that have a group."""
    found = {}
    for above in ("", "burstable", "besteffort"):
        group = CGROUPS / PARENT / above / f"pod{uid}"
        if group.is_dir():
            found[""] = group_files(group)
            for one in sorted(group.glob("c-*")):
                if one.is_dir() and (one / "cgroup.procs").read_text().strip():
                    found[one.name.removeprefix("c-")] = group_files(one)
    return found


def pod_resources(which: str) -> Any:
    """What the PodResources API of the agent or of the kubelet answers."""
    import msgspec
    from tests.twin.kubelet import ROOT

    from numalign.adapters.grpc.podresources_client import asked

    place = STATE if which == "agent" else ROOT
    return msgspec.to_builtins(asked(place / "pod-resources" / "kubelet.sock", SECONDS_MAX))
