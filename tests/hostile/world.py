"""The agent under attack, what surrounds it, and what was done to it so far."""

import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.apps.agent.processes import AgentProcess
from tests.paths import CHECKOUT
from tests.real.faketime import faketime
from tests.real.kept import MissingError

STATE_MEGABYTES = 8
DESCRIPTORS = 160  # of the agent: few enough to be used up
QUIET_SECONDS = 60.0


class Hostile(AgentProcess):
    """An agent on a small disk of its own, with few descriptors."""

    wait_seconds = QUIET_SECONDS

    def __init__(self):
        super().__init__(
            config="kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
            "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
        )
        self.clock = self.root / "clock"
        self.clock.write_text("+0")
        with contextlib.suppress(MissingError):  # then the clock stays as it is
            self.environment |= {
                "LD_PRELOAD": str(faketime()),
                "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        self.state.mkdir(mode=0o700)
        options = f"size={STATE_MEGABYTES}m,mode=0700"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.state)], check=True
        )

    def start(self, *, wait=True):
        super().start(wait=False)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, 4096))
        if wait:
            self.until(self.answers, "the agent to answer")

    def clean_up(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        for pid in marked(self.marker):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["umount", "-l", str(self.state)], check=True)
        super().clean_up()

    @property
    def marker(self):
        """In the command line of everything that runs for this agent."""
        return self.root.name


@dataclass
class World:
    agent: Hostile
    rng: random.Random
    done: list[str] = field(default_factory=list)  # every action, in order
    held: list[socket.socket] = field(default_factory=list)  # connections of a bad client
    stopped: list[int] = field(default_factory=list)  # processes that got SIGSTOP
    number: int = 0
    plugin: subprocess.Popen[bytes] | None = None

    def start_plugin(self, mode):
        self.end_plugin()
        command = [sys.executable, "-m", "tests.hostile.plugin"]
        command += [str(self.agent.state / "device-plugins"), mode]
        self.plugin = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def end_plugin(self):
        if self.plugin is not None:
            self.plugin.kill()
            self.plugin.wait()
            self.plugin = None

    def new_name(self):
        self.number += 1
        return f"h{self.number}"

    def ask(self, method, path, **arguments):
        """A request whose failure is no matter here."""
        with contextlib.suppress(httpx.HTTPError, OSError):
            return self.agent.request(method, path, **arguments)
        return None

    def pods(self):
        answer = self.ask("GET", "/pods")
        with contextlib.suppress(ValueError, KeyError):
            return [] if answer is None else answer.json()["items"]
        return []

    def calm(self):
        """Takes back whatever would keep the agent from becoming well again."""
        for connection in self.held:
            connection.close()
        self.held.clear()
        for pid in (*self.stopped, self.agent.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()
        self.start_plugin("good")
        state = self.agent.state
        subprocess.run(["mount", "-o", "remount,rw", str(state)], check=True)
        (state / "filler").unlink(missing_ok=True)
        for path in list(self.agent.pods.iterdir()):
            if not re.fullmatch(r"h\d+\.json", path.name):
                remove(path)
        if self.agent.process.poll() is not None:
            raise AssertionError(f"the agent ended by itself with {self.agent.process.returncode}")


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def marked(marker):
    """Every living process whose command line has the marker, but for the agent and us."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if marker.encode() in line and state not in "ZX":
                found[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def saved(agent, name):
    path = agent.state / name
    return json.loads(path.read_text()) if path.exists() else None


def until(condition, what, seconds=QUIET_SECONDS):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if not found:
            return
        if time.monotonic() > end:
            raise AssertionError(f"{what}: {found}")
        time.sleep(0.1)
