"""The watchdog at work: runs of pytest that would never end, or leave something behind."""

import subprocess
import sys
import time

import pytest
from tests.paths import CHECKOUT

LEAKS = {
    "thread": (
        "import threading\n"
        "def test_a():\n"
        "    threading.Thread(target=threading.Event().wait, name='forgotten').start()\n",
        "thread forgotten, which is no daemon and still runs:",
    ),
    "process": (
        "import subprocess\n"
        "LEFT = []\n"
        "def test_a():\n"
        "    LEFT.append(subprocess.Popen(['sleep', '98765']))\n",
        "killed now: sleep 98765",
    ),
    "orphan": (
        "import subprocess\n"
        "def test_a():\n"
        "    subprocess.run(['sh', '-c', 'setsid sleep 98764 &'], check=True)\n",
        "killed now: sleep 98764",
    ),
    "hang": (
        "import threading, pytest\n"
        "@pytest.mark.seconds_max(1)\n"
        "def test_that_hangs():\n"
        "    threading.Event().wait()\n",
        "test_that_hangs took more than 1 s",
    ),
}


def ran(place, text):
    """pytest with the watchdog on one file."""
    path = place / "test_small.py"
    path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(CHECKOUT / "pyproject.toml")]
    command += ["-p", "tests.watchdog", "--rootdir", str(place), str(path)]
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("kind", LEAKS)
def test_a_run_that_hangs_or_leaks_ends_soon_red_and_by_name(kind, tmp_path):
    text, words = LEAKS[kind]
    begin = time.monotonic()
    done = ran(tmp_path, text)
    assert time.monotonic() - begin < 30
    assert done.returncode == 1
    assert words in done.stdout + done.stderr


def test_a_run_that_leaves_nothing_is_green(tmp_path):
    done = ran(tmp_path, "def test_a(): pass\n")
    assert (done.returncode, "left behind" in done.stdout) == (0, False)
