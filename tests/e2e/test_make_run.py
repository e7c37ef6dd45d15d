"""What ``make run`` starts: the kernel agrees with what the agent shows."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import allowed_cpus
from tests.paths import CHECKOUT
from tests.sockets import make_short_directory

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

NUMALIGN = [sys.executable, "-m", "numalign"]


def asked(socket, *arguments):
    command = [*NUMALIGN, *arguments, "--socket", str(socket), "-o", "json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else None


def running(socket):
    found = asked(socket, "get", "pods")
    return {
        pod["metadata"]["name"]: pod
        for pod in (found or {}).get("items", [])
        if pod["status"]["phase"] in {"Running", "Failed"}
    }


@pytest.fixture
def ran():
    """``make run`` in a checkout, with a state directory of its own; its socket."""
    root = make_short_directory("nr-")
    socket = root / f"numalign-run-{os.geteuid()}" / "agent.sock"
    with (
        (root / "output").open("wb") as output,
        subprocess.Popen(
            ["make", "run"],
            cwd=CHECKOUT,
            env={**os.environ, "TMPDIR": str(root)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield socket
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
            said = (root / "output").read_text()
    left = list((socket.parent / "runs").glob("*"))
    shutil.rmtree(root, ignore_errors=True)
    assert left == [], f"the example pods end with it: {said[-2000:]}"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to reserve, one to give")
def test_make_run_shows_pinned_pods_and_the_kernel_agrees_with_get_cpus(ran):
    end = time.monotonic() + 60
    while len(running(ran)) < 4 and time.monotonic() < end:
        time.sleep(0.5)
    pods = running(ran)
    assert {name for name, pod in pods.items() if pod["status"]["phase"] == "Failed"} == {"too-big"}
    shown = {}  # container -> (use, CPUs) of the rows of `numalign get cpus`
    for row in asked(ran, "get", "cpus"):
        for who in row["containers"]:
            shown.setdefault(who, []).append((row["use"], row["cpus"]))
    assert [use for use, _ in shown["default/pinned-worker/worker"]] == ["exclusive"]
    checked = 0
    for name, pod in pods.items():
        for container, placed in pod["numalign"]["containers"].items():
            rows = shown.get(f"default/{name}/{container}", [])
            if placed["pid"] is None:
                assert rows == [], f"{name}/{container} has ended and sits nowhere"
                continue
            cpus = sorted(int(n) for _, text in rows for n in numbers(text))
            assert cpus == numbers(allowed_cpus(placed["pid"])), f"{name}/{container}"
            owner = Path(f"/proc/{placed['pid']}").stat().st_uid
            assert owner == (65534 if os.geteuid() == 0 else os.geteuid()), "examples are nobody's"
            checked += 1
    assert checked == 4, "worker, streamer, app and its sidecar"


def numbers(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
