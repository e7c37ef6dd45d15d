"""What ``make run`` starts: the kernel agrees with what the agent shows."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import allowed_cpus
from tests.paths import CHECKOUT

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

STATE = CHECKOUT / ".run"
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


@contextlib.contextmanager
def make_run(ending=signal.SIGINT):
    """``make run`` in the checkout, for the time of the block."""
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            ["make", "run"],
            cwd=CHECKOUT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield STATE / "agent.sock"
        finally:
            os.killpg(process.pid, ending)
            process.wait(60)
            output.seek(0)
            said = output.read().decode()
    if ending == signal.SIGINT:
        left = list((STATE / "runs").glob("*"))
        assert left == [], f"the example pods end with it: {said[-2000:]}"


def until_all_four_are_there(socket):
    end = time.monotonic() + 60
    while len(running(socket)) < 4 and time.monotonic() < end:
        time.sleep(0.5)
    return running(socket)


@pytest.fixture
def ran():
    if STATE.exists():
        pytest.skip(f"somebody uses {STATE}")
    try:
        with make_run() as socket:
            yield socket
    finally:
        shutil.rmtree(STATE, ignore_errors=True)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to reserve, one to give")
def test_make_run_shows_pinned_pods_and_the_kernel_agrees_with_get_cpus(ran):
    pods = until_all_four_are_there(ran)
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


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to reserve, one to give")
def test_make_run_works_again_after_a_kill_and_after_an_orderly_end():
    if STATE.exists():
        pytest.skip(f"somebody uses {STATE}")
    try:
        for ending in (signal.SIGKILL, signal.SIGINT, signal.SIGINT):
            with make_run(ending) as socket:
                pods = until_all_four_are_there(socket)
                assert len(pods) == 4
                assert pods["pinned-worker"]["status"]["phase"] == "Running"
        assert (STATE.stat().st_mode & 0o777, STATE.stat().st_uid) == (0o700, os.geteuid())
    finally:
        shutil.rmtree(STATE, ignore_errors=True)


def numbers(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
