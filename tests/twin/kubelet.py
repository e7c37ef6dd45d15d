"""Runs inside the guest: containerd, the kubelet and its device plugins, and what they did.

Static pods are written as manifests; what becomes of them is read from the kubelet's read-only
port, its state files and the cgroups.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path("/var/lib/kubelet")
CONFIG: Final = ROOT / "config.yaml"
MANIFESTS: Final = Path("/run/manifests")
RUNTIME: Final = Path("/run/ctd")  # on a tmpfs: overlayfs does not lie on overlayfs
DEVICES: Final = ROOT / "device-plugins"
PODS: Final = Path("/run/pods.json")
CGROUPS: Final = Path("/sys/fs/cgroup")
HOST_NAME: Final = "worker-1"
PORT: Final = 10255
START_SECONDS_MAX: Final = 400.0
POD_SECONDS_MAX: Final = 240.0
CGROUP_FILES: Final = (
    "cpuset.cpus",
    "cpuset.mems",
    "cpuset.cpus.effective",
    "cpuset.mems.effective",
    "cpu.weight",
    "cpu.max",
    "memory.max",
    "hugetlb.2MB.max",
)
STATE_FILES: Final = {
    "cpu_manager_state": ROOT / "cpu_manager_state",
    "memory_manager_state": ROOT / "memory_manager_state",
    "kubelet_internal_checkpoint": DEVICES / "kubelet_internal_checkpoint",
}
IMAGES: Final = ("busybox", "pause")
ENDED: Final = ("Failed", "Succeeded")

_processes: dict[str, subprocess.Popen[bytes]] = {}


class NotSettledError(Exception):
    """Something did not become so in time."""


def until(is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Waits for something."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise NotSettledError(f"not in {seconds:.0f} s: {what}")
        time.sleep(0.6)  # asking often slows down what is waited for


def _started(name: str, command: Sequence[str], **env: str) -> subprocess.Popen[bytes]:
    with (Path("/run") / f"{name.replace('/', '_')}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # plugins end with it
            stdout=log,
            stderr=log,
            # Go would spin on every emulated CPU, and they share two real ones; and its garbage
            # is cheaper to keep than to collect.
            env={**os.environ, "GOMAXPROCS": "2", "GOGC": "400", **env},
            start_new_session=True,
        )
    _processes[name] = process
    return process


def _log(name: str) -> str:
    with suppress(OSError):
        return (Path("/run") / f"{name.replace('/', '_')}.log").read_text(errors="replace")
    return ""


def _killed(name: str) -> None:
    process = _processes.pop(name, None)
    if process is not None:
        process.kill()
        process.wait()


# Starting.


def start_containerd(files: str, config: str) -> None:
    """A private containerd, which then takes up the two images of the tests."""
    for name in ("cdi", "cni-bin", "cni-conf"):
        (RUNTIME / name).mkdir(parents=True)
    network = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
    (RUNTIME / "cni-conf" / "10-none.conflist").write_text(json.dumps(network))
    (RUNTIME / "config.toml").write_text(config)
    path = f"{files}/bin:{os.environ['PATH']}"
    programs = Path(files) / "bin"
    command = [str(programs / "containerd"), "-c", str(RUNTIME / "config.toml")]
    _started("containerd", command, PATH=path)
    place = RUNTIME / "containerd.sock"
    until(place.exists, "containerd answers", START_SECONDS_MAX)
    ctr = [str(programs / "ctr"), "-a", str(place), "-n", "k8s.io"]
    for name in IMAGES:
        _started(f"import {name}", [*ctr, "images", "import", f"{files}/{name}.tar"])


def wait_for_images() -> None:
    """Until the images are there: the kubelet starts in the meantime."""
    for name in IMAGES:
        process = _processes.pop(f"import {name}")
        assert process.wait(START_SECONDS_MAX) == 0, _log(f"import {name}") + _log("containerd")


def start_kubelet(program: str, files: str, config: Mapping[str, Any]) -> None:
    """The kubelet on static pods, without an API server."""
    if not MANIFESTS.exists():
        MANIFESTS.mkdir()
        ROOT.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "kubelet", str(ROOT)], check=True)
    CONFIG.write_text(json.dumps(config))
    command = [program, "--config", str(CONFIG), "--hostname-override", HOST_NAME]
    process = _started("kubelet", command, PATH=f"{files}/bin:{os.environ['PATH']}")

    def is_up() -> bool:
        if process.poll() is not None:
            raise NotSettledError(f"the kubelet ended: {_log('kubelet')[-1500:]}")
        with suppress(OSError, ValueError):
            _pods()
            return all(STATE_FILES[name].exists() for name in list(STATE_FILES)[:2])
        return False

    until(is_up, "the kubelet answers", START_SECONDS_MAX)


def stop_kubelet() -> None:
    """Kills the kubelet; containers go on."""
    _killed("kubelet")


def start_plugins(program: str, devices: Mapping[str, Sequence[str]], place: str) -> None:
    """A device plugin for each resource, registered in a directory."""
    for resource, items in devices.items():
        name = f"plugin {place} {resource}"
        before = _log(name).count('"sent"')
        words = [item if not item.endswith("=") else f"{item}-" for item in items]
        _started(name, [program, place, resource, "-plain", *words])
        # One by one: of two at once the kubelet may write the devices of the first alone, and last.
        until(
            lambda name=name, before=before: _log(name).count('"sent"') > before,
            f"the plugin of {resource} is asked: {_log(name)[-500:]}",
            POD_SECONDS_MAX,
        )


def stop_plugins(place: str) -> None:
    """Ends the plugins of a directory."""
    for name in [name for name in _processes if name.startswith(f"plugin {place} ")]:
        _killed(name)


# What there is.


def machine() -> dict[str, str]:
    """The kernel's files that show the machine."""
    found: dict[str, str] = {}

    def put(path: Path) -> None:
        with suppress(OSError, UnicodeDecodeError):
            found[str(path)] = path.read_text()

    put(Path("/proc/meminfo"))
    for top in (Path("/sys/devices/system/node"), Path("/sys/devices/system/cpu")):
        for name in ("online", "possible", "present"):
            put(top / name)
        for one in sorted([*top.glob("node[0-9]*"), *top.glob("cpu[0-9]*")]):
            for name in ("cpulist", "distance", "meminfo", "online"):
                put(one / name)
            for path in sorted(one.glob("topology/*")):
                put(path)
            for name in ("id", "level", "type", "shared_cpu_list", "size"):
                for path in sorted(one.glob(f"cache/index*/{name}")):
                    put(path)
            for path in sorted(one.glob("hugepages/*/*")):
                put(path)
    for path in sorted(Path("/sys/kernel/mm/hugepages").glob("*/*")):
        put(path)
    return found


def _pod_list() -> bytes:
    """What the kubelet says of its pods: a v1.PodList."""
    url = f"http://127.0.0.1:{PORT}/pods"
    with urllib.request.urlopen(url, timeout=POD_SECONDS_MAX) as answer:
        data: bytes = answer.read()
        return data


def _pods() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_pod_list())["items"] or []
    return found


def _status(uid: str) -> dict[str, Any]:
    for pod in _pods():
        if pod["metadata"]["uid"] == uid:
            status: dict[str, Any] = pod["status"]
            return status
    return {}


def state_files() -> dict[str, str | None]:
    """The bytes of the state files, None for a missing one."""
    return {n: p.read_text() if p.exists() else None for n, p in STATE_FILES.items()}


def put_state_files(files: Mapping[str, str | None]) -> None:
    """Puts a copy of somebody's state where the kubelet will find it; it must not run."""
    assert "kubelet" not in _processes, "the kubelet is stopped"
    for name, text in files.items():
        STATE_FILES[name].unlink(missing_ok=True)
        if text is not None:
            STATE_FILES[name].write_text(text)


def _holds_cpus(uid: str) -> bool:
    return uid in STATE_FILES["cpu_manager_state"].read_text()


def capture(bundle: str, version: str) -> None:
    """``numalign capture`` with the pods that the kubelet itself lists."""
    from numalign.adapters.grpc import podresources_client
    from numalign.cli.main import main

    # An emulated kubelet may need longer than the command waits for a real one.
    podresources_client.asked.__defaults__ = (POD_SECONDS_MAX,)
    PODS.write_bytes(_pod_list())
    minor = version.rpartition(".")[0]
    words = ["capture", "-o", bundle, "--pods", str(PODS), "--kubernetes", minor]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(words)
    assert code == 0, said.getvalue()


# Steps.


def apply(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Gives the kubelet a static pod and waits until it runs or was refused."""
    meta = manifest["metadata"]
    uid = meta["uid"]
    # Written whole and renamed: the kubelet reads what it is told of.
    new = MANIFESTS.with_name("new-manifest")
    new.write_text(json.dumps(manifest))
    new.rename(MANIFESTS / f"{meta['name']}.json")
    status: dict[str, Any] = {}

    def is_settled() -> bool:
        nonlocal status
        status = _status(uid)
        return status.get("phase") in ("Running", *ENDED)

    with suppress(NotSettledError):  # then the record says Pending
        until(is_settled, f"{meta['name']} runs", POD_SECONDS_MAX)
    if status.get("phase") == "Failed":
        # What a refused pod was given on the way is freed by the reconcile loop.
        until(lambda: not _holds_cpus(uid), f"{meta['name']} is cleaned up", POD_SECONDS_MAX)
    return {
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "qos": status.get("qosClass"),
        **state_files(),
        "cgroups": cgroups(uid, status),
    }


def cgroups(uid: str, status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The cgroup files of a pod ("") and of its containers that have a group."""
    names = {
        one["containerID"].rpartition("/")[2]: one["name"]
        for key in ("initContainerStatuses", "containerStatuses")
        for one in status.get(key) or ()
        if one.get("containerID")
    }
    found = {}
    for above in ("", "burstable", "besteffort"):
        group = CGROUPS / "kubepods" / above / f"pod{uid}"
        if group.is_dir():
            found[""] = group_files(group)
            for identity, name in names.items():
                if (group / identity).is_dir():
                    found[name] = group_files(group / identity)
    return found


def group_files(group: Path) -> dict[str, str]:
    """The files of one cgroup that a record holds."""
    found = {}
    for name in CGROUP_FILES:
        with suppress(OSError):
            found[name] = (group / name).read_text().strip()
    return found


def delete(name: str, uid: str) -> None:
    """Takes a static pod away and waits until the kubelet holds nothing for it."""
    (MANIFESTS / f"{name}.json").unlink()
    if _processes.get("kubelet") is not None:
        until(lambda: not _status(uid) and not _holds_cpus(uid), f"{name} goes", POD_SECONDS_MAX)


def restarted(uids: Sequence[str]) -> dict[str, Any]:
    """What became of all pods after the kubelet was started again."""

    def phases() -> dict[str, tuple[str, list[Any]]]:
        return {
            pod["metadata"]["uid"]: (
                pod["metadata"]["name"],
                [pod["status"].get("phase"), pod["status"].get("reason")],
            )
            for pod in _pods()
        }

    def is_settled() -> bool:
        found = phases()
        return all(uid in found and found[uid][1][0] in ("Running", *ENDED) for uid in uids)

    until(is_settled, "all pods are decided about", POD_SECONDS_MAX)
    found = phases()
    idle = [uid for uid, (_, (phase, _)) in found.items() if phase in ENDED]
    until(lambda: not any(map(_holds_cpus, idle)), "refused pods are cleaned up", POD_SECONDS_MAX)
    held = json.loads(STATE_FILES["cpu_manager_state"].read_text())
    gone = [uid for uid in _entries(held) if uid not in uids]
    until(
        lambda: not any(map(_holds_cpus, gone)),
        "pods that are gone are cleaned up",
        POD_SECONDS_MAX,
    )
    files = state_files()
    del files["kubelet_internal_checkpoint"]
    return {"pods": dict(found.values()), **files}


def _entries(state: Mapping[str, Any]) -> list[str]:
    data = state.get("data", state)
    if isinstance(data, str):
        data = json.loads(data)
    return list(data.get("entries") or {})
