"""``pip install numalign`` alone serves hosts; what needs an extra says which, in one sentence."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.simulator.scenarios import SMALL
from tests.packaging.runtime_lock import extras_lock
from tests.paths import CHECKOUT

from numalign.cli.commands import GROUPS
from numalign.cli.extras import not_installed

pytestmark = pytest.mark.e2e

POD = CHECKOUT / "examples" / "pods" / "pinned-worker.yaml"
KUBELET = CHECKOUT / "examples" / "policies" / "kubelet.yaml"
ON = ["--on", "xeon-2s", "--kubelet-config", str(KUBELET)]
SCENARIO = "SCENARIO"  # stands for the file of a small one
AGENT_SECONDS_MAX = 60.0
NOWHERE = "--kubeconfig=/nonexistent"
# Commands of the smallest installation, with what they must say.
ALONE = {
    "topology": (["topology", "--machine", "xeon-2s"], "2 sockets"),
    "svg": (["topology", "--machine", "xeon-2s", "-o", "svg"], "<svg"),
    "admit": (["admit", "-f", str(POD), *ON], "pinned-worker"),
    "explain": (["explain", "-f", str(POD), *ON], "admitted"),
    "crd": (["crd"], "CustomResourceDefinition"),
    "machines": (["machines"], "gb200"),
    "completion": (["completion", "bash"], "complete"),
}
# Commands that need an extra, and what they say once it is there.
WITH = {
    "hosts": (["hosts", NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "pods": (["pods", NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "fit": (["fit", "-f", str(POD), NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "export": (["export", "--oneshot", NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "scheduler": (["scheduler", "--standalone", NOWHERE], "", "cluster", "/nonexistent"),
    "withdraw": (["withdraw", NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "nri": (["nri"], "httpx2", "cluster", None),  # it would run
    "redeploy": (["redeploy", NOWHERE], "", "cluster", "/nonexistent"),
    "capacity": (["capacity", "--shape=cpu=2", NOWHERE], "", "cluster", "/nonexistent"),
    "defrag": (["defrag", "-f", str(POD), NOWHERE], "", "cluster", "/nonexistent"),
    "capture": (["capture", "--cluster", NOWHERE], "httpx2", "cluster", "/nonexistent"),
    "simulate": (["simulate", SCENARIO], "", "sim", "pods placed"),
    "png": (["topology", "--machine", "xeon-2s", "-o", "png"], "resvg_py", "png", "PNG"),
}


class Installation:
    """A virtual environment with our wheel and the packages of the lock file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._python = place / "bin" / "python"
        wheels = place.with_name("wheels")
        pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(wheels), ".")
        command = [sys.executable, "-m", "venv", "--without-pip", str(place)]
        subprocess.run(command, check=True)
        self.empty = self.size()
        self.add()
        self.install("--no-deps", "--no-index", str(next(wheels.glob("*.whl"))))

    def add(self, *extras: str) -> None:
        lock = self.place.with_name("lock.txt")
        lock.write_text(extras_lock(*extras))
        self.install("--require-hashes", "-r", str(lock))

    def install(self, *arguments: str) -> None:
        pip("--python", str(self._python), "install", *arguments)

    def size(self) -> float:
        return sum(p.lstat().st_size for p in self.place.rglob("*") if not p.is_dir()) / 1e6

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        scenario = self.place.with_name("small.yaml")
        scenario.write_text(SMALL)
        put = [str(scenario) if word == SCENARIO else word for word in words]
        command = [self._python, "-I", "-m", "numalign", *put]
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=CHECKOUT)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Installation:
    """What ``pip install numalign`` gives."""
    made = Installation(tmp_path_factory.mktemp("alone") / "venv")
    sys.stdout.write(f"\nalone: {made.size() - made.empty:.0f} MB\n")
    return made


@pytest.mark.parametrize("name", ALONE)
def test_commands_for_a_host_need_no_extra(alone, name):
    words, expected = ALONE[name]
    done = alone.run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


def test_the_agent_needs_no_extra(alone, tmp_path):
    pods, state = tmp_path / "pods", tmp_path / "state"
    pods.mkdir()
    (pods / "too-big.yaml").write_text(POD.with_name("too-big.yaml").read_text())
    command = [alone.place / "bin" / "numalign", "agent", "--pods", pods, "--state-dir", state]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as agent,
    ):
        try:
            deadline = time.monotonic() + AGENT_SECONDS_MAX
            said = ""
            while "UnexpectedAdmissionError" not in said:
                assert agent.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.5)
                said = alone.run("get", "pods", "--socket", str(state / "agent.sock")).stdout
            done = alone.run("explain", "-f", str(POD), "--on", f"unix://{state}/agent.sock")
            assert "pinned-worker" in done.stdout, done.stderr
        finally:
            agent.terminate()


@pytest.mark.parametrize("name", WITH)
def test_what_is_missing_is_said_in_one_sentence(alone, name):
    words, package, extra, _ = WITH[name]
    done = alone.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: this command needs {package}")
    assert line.endswith(f"which is not installed here: pip install 'numalign[{extra}]'")


def test_help_of_every_command_needs_no_extra(alone):
    for _, entries in GROUPS:
        for entry in entries:
            done = alone.run(entry.name, "--help")
            assert (done.returncode, done.stderr) == (0, ""), entry.name


def test_an_extra_is_all_that_its_commands_need(tmp_path):
    for extra in ("png", "sim", "cluster"):
        made = Installation(tmp_path / extra / "venv")
        before = made.size() - made.empty
        made.add(extra)
        sys.stdout.write(f"[{extra}]: {made.size() - made.empty - before:.0f} MB more\n")
        for name, (words, _, of, expected) in WITH.items():
            if of == extra and expected is not None:
                done = made.run(*words)
                said = done.stdout + done.stderr
                assert expected in said, name
                assert "which is not installed" not in said, name


@pytest.mark.parametrize("name", ["somebody_elses", ""])
def test_a_module_of_no_extra_is_a_bug(name):
    assert not_installed(ModuleNotFoundError("x", name=name), "topology") is None
