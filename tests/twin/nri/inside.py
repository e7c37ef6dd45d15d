"""Runs inside the guest: our NRI plugin in containerd, under a kubelet that places nothing."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from tests.twin import kubelet
from tests.twin.kubelet import MANIFESTS, NotSettledError, cgroups, until

from numalign.adapters.nri.two_copies import TwoCopies

STATE: Final = Path("/run/nri-state")
HOST_FILE: Final = Path("/run/nri.yaml")
LOG: Final = Path("/run/nri.log")
MANAGERS: Final = ("cpu_manager_state", "memory_manager_state")
TOLD_SECONDS: Final = 2.0  # it waits half a second for more, and the guest is slow
SECONDS_MAX: Final = 400.0

# Loaded once: an emulated CPU takes half a minute for it.
_forks = multiprocessing.get_context("forkserver")
_processes: list[ForkServerProcess] = []


def load() -> None:
    """Begins to load the plugin's code beside whatever else goes on."""
    _forks.set_forkserver_preload(["numalign.cli.cluster.nri", "numalign.apps.nri.run"])
    multiprocessing.forkserver.ensure_running()


def _run(words: Sequence[str]) -> None:
    from numalign.cli.main import main

    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.setsid()
    os._exit(main(words))


def start(host_file: Mapping[str, Any]) -> None:
    """Starts the plugin and waits until the runtime has told it what runs."""
    HOST_FILE.write_text(json.dumps(host_file))
    before = said().count("event=synchronized ")
    words = ["nri", "--socket", str(kubelet.RUNTIME / "nri.sock"), "--config", str(HOST_FILE)]
    words += ["--state-dir", str(STATE), "--listen", ""]
    process = _forks.Process(target=_run, args=(words,))
    process.start()
    _processes[:] = [process]

    def is_up() -> bool:
        if not process.is_alive():
            raise NotSettledError(f"the plugin ended: {said()[-1500:]}")
        return said().count("event=synchronized ") > before

    until(is_up, f"the plugin is synchronized: {said()[-1500:]}", SECONDS_MAX)


def stop() -> None:
    """Kills the plugin; containers go on."""
    for process in _processes:
        process.kill()
        process.join()
    _processes.clear()


def end() -> None:
    """Ends the plugin as a service manager does."""
    for process in _processes:
        process.terminate()
        process.join()
    _processes.clear()


def take_from_kubelet(config: Mapping[str, Any]) -> None:
    """What is to be done to a stopped kubelet before the plugin is started in its place."""
    kubelet.CONFIG.write_text(json.dumps(config))
    for name in MANAGERS:
        kubelet.STATE_FILES[name].unlink()


def give_back_to_kubelet() -> None:
    """What is to be done before a kubelet places again: it takes up the plugin's state."""
    for name in MANAGERS:
        kubelet.STATE_FILES[name].write_bytes((STATE / name).read_bytes())


def said() -> str:
    """The plugin's log."""
    with suppress(OSError):
        return LOG.read_text(errors="replace")
    return ""


def apply(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Gives the kubelet a static pod and waits until all of it runs, or we refused some of it."""
    meta = manifest["metadata"]
    new = MANIFESTS.with_name("new-manifest")
    new.write_text(json.dumps(manifest))
    new.rename(MANIFESTS / f"{meta['name']}.json")
    return settled(meta["uid"], meta["name"])


def settled(uid: str, name: str) -> dict[str, Any]:
    """What became of a pod."""
    began = time.monotonic()
    status: dict[str, Any] = {}
    refused = ""

    def is_settled() -> bool:
        nonlocal status, refused
        status = kubelet._status(uid)
        refused = _refusal(status)
        found = status.get("containerStatuses") or ()
        runs = bool(found) and all("running" in one.get("state", {}) for one in found)
        return bool(refused) or status.get("phase") == "Failed" or runs

    until(is_settled, f"{name} runs or is refused", kubelet.POD_SECONDS_MAX)
    if status.get("phase") == "Failed":
        refused = f"{status.get('reason')}: {status.get('message')}"
    return {
        "refused": refused,
        "cgroups": cgroups(uid, status),
        "seconds": time.monotonic() - began,
    }


def _refusal(status: Mapping[str, Any]) -> str:
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key) or ():
            waiting = one.get("state", {}).get("waiting") or {}
            if "numalign:" in waiting.get("message", ""):
                text: str = waiting["message"]
                return text[text.index("numalign:") :]
    return ""


def delete(name: str, uid: str) -> None:
    """Takes a static pod away and waits until the runtime has ended it, too."""
    (MANIFESTS / f"{name}.json").unlink()
    group = kubelet.CGROUPS / "kubepods"
    parents = [group / above / f"pod{uid}" for above in ("", "burstable", "besteffort")]
    until(
        lambda: (
            not kubelet._status(uid)
            and not _holds(uid)
            and not any(parent.exists() for parent in parents)
        ),
        f"{name} goes",
        kubelet.POD_SECONDS_MAX,
    )


def _holds(uid: str) -> bool:
    """Whether the plugin keeps anything for a pod."""
    copies = TwoCopies(STATE / "nri_state").read()
    found = [json.loads(data) for data in copies if data]
    newest = max(found, key=lambda one: one["number"], default={"body": {}})
    return uid in newest["body"].get("pods", {})


def pages_of(uid: str) -> dict[str, list[int]]:
    """The NUMA nodes on which the processes of a pod's containers have pages, by container."""
    found: dict[str, list[int]] = {}
    group = kubelet.CGROUPS / "kubepods" / f"pod{uid}"
    # Not of its sandbox, which nobody places.
    for one in kubelet._status(uid).get("containerStatuses") or ():
        place = group / one["containerID"].rpartition("/")[2]
        nodes: set[int] = set()
        for pid in (place / "cgroup.procs").read_text().split():
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
                    words = line.split()
                    # Pages of files are shared with others, and were there before.
                    is_own = any(word.startswith("anon=") for word in words)
                    if is_own and not any(word.startswith("file=") for word in words):
                        nodes |= {int(w[1:].split("=")[0]) for w in words if w[:1] == "N"}
        found[one["name"]] = sorted(nodes)
    return found


def containers(uid: str) -> dict[str, str]:
    """The runtime's ids of a pod's containers by name."""
    found = kubelet._status(uid).get("containerStatuses") or ()
    return {one["name"]: one.get("containerID", "") for one in found}


def kill_container(uid: str, name: str) -> None:
    """Kills the processes of a container and waits until the kubelet has made a new one."""
    before = containers(uid)[name]
    group = kubelet.CGROUPS / "kubepods" / f"pod{uid}" / before.rpartition("/")[2]
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)

    def is_new() -> bool:
        found = kubelet._status(uid).get("containerStatuses") or ()
        return any(
            one["name"] == name and one.get("containerID") != before and "running" in one["state"]
            for one in found
        )

    until(is_new, f"{name} is made anew", kubelet.POD_SECONDS_MAX)


def published() -> dict[str, Any]:
    """What the plugin tells in the kubelet's own files, which it writes beside its answers."""
    time.sleep(TOLD_SECONDS)
    until(lambda: all((STATE / name).exists() for name in MANAGERS), "it tells", SECONDS_MAX)
    return {name: json.loads((STATE / name).read_text()) for name in MANAGERS}


def restart_containerd(files: str) -> None:
    """Kills the runtime and starts it again; containers go on."""
    kubelet._killed("containerd")
    programs = Path(files) / "bin"
    command = [str(programs / "containerd"), "-c", str(kubelet.RUNTIME / "config.toml")]
    before = said().count("event=synchronized ")
    kubelet._started("containerd", command, PATH=f"{programs}:{os.environ['PATH']}")
    until(
        lambda: said().count("event=synchronized ") > before,
        f"the plugin finds the runtime again: {said()[-800:]}",
        SECONDS_MAX,
    )


def started(uid: str, name: str) -> dict[str, Any]:
    """Waits until a pod that was refused runs, and says how long that took."""
    began = time.monotonic()

    def is_running() -> bool:
        found = kubelet._status(uid).get("containerStatuses") or ()
        return bool(found) and all("running" in one.get("state", {}) for one in found)

    until(is_running, f"{name} runs at last", SECONDS_MAX)
    return {"seconds": time.monotonic() - began}
