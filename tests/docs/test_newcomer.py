"""A stranger with nothing but a clone and the README: every promised line is there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.docs.shown import matches, shown
from tests.paths import CHECKOUT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to reserve and one to give"
    ),
]
PAGE = "http://127.0.0.1:8421"
START_SECONDS_MAX = 240


@pytest.fixture
def clone(tmp_path):
    """A clone of what is committed, and a home with nothing in it."""
    place, home = tmp_path / "numalign", tmp_path / "home"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, place], check=True)
    home.mkdir()
    kept = ("PATH", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "PIP_FIND_LINKS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return place, {**environment, "HOME": str(home), "LANG": "C.UTF-8"}


@contextmanager
def make_run(place, environment, output):
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["make", "run"],
            cwd=place,
            env=environment,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + START_SECONDS_MAX
        while "in a browser:" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.5)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def said(command, place, environment):
    found = subprocess.run(
        shlex.split(command),
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return found.stdout


def test_the_readme_works_from_the_top_as_it_stands(clone, tmp_path):
    place, environment = clone
    with suppress(OSError), urllib.request.urlopen(PAGE, timeout=1):
        pytest.skip(f"something answers at {PAGE} already")
    promised = [one for one in shown(place / "README.md") if one.command.startswith(".venv/bin/")]
    assert len(promised) >= 2
    output = tmp_path / "output"
    with make_run(place, environment, output):
        until = time.monotonic() + 60
        for one in promised:
            while not matches(one.output, printed := said(one.command, place, environment)):
                assert time.monotonic() < until, f"{one.command}: {printed}"
                time.sleep(0.5)
        # The lines that the agent itself prints can be typed as they stand.
        for line in output.read_text().splitlines():
            name, _, command = line.strip().partition(":")
            if name in {"who sits where", "pods", "why was it so"}:
                assert said(command.strip(), place, environment), line
        with urllib.request.urlopen(PAGE, timeout=10) as answer:
            assert b"<html" in answer.read()
    left = subprocess.run(
        ["git", "status", "--porcelain"], cwd=place, capture_output=True, check=True
    )
    assert left.stdout == b"", "make run leaves the checkout as it was"


def test_the_first_five_minutes_need_nothing_but_the_program(clone, tmp_path):
    place, environment = clone
    subprocess.run(["make", "setup"], cwd=place, env=environment, check=True)
    program = place / ".venv" / "bin" / "numalign"
    here = tmp_path / "anywhere"
    here.mkdir()
    for one in shown(place / "docs" / "start.md"):
        words = shlex.split(one.command)
        if words[0] == "cat":
            Path(here / words[1]).write_text("\n".join(one.output) + "\n")
            continue
        printed = said(shlex.join([str(program), *words[1:]]), here, environment)
        assert printed, one.where
        if "refused" not in one.output[0]:  # beside it stands a hint on standard error
            assert matches(one.output, printed), f"{one.where}: {printed}"
