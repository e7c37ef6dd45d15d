"""A pytest plugin that lets no test hang, and no thread or process outlive the run unseen.

A test that takes too long ends the whole run, with the stacks of all threads. At the end of the run
every thread that would keep Python from ending and every process that tests left are named and
ended, and the run fails.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sockets import MADE

SECONDS_MAX = {  # by marker; the last that fits counts
    "": 300.0,
    "e2e": 1800.0,  # may fetch and build real components first
    "e2e_quick": 600.0,
    "e2e_numa": 7200.0,
}
GRACE_SECONDS = 3.0  # for what is just ending
EXIT_SECONDS_MAX = 60.0
MARK = "NUMALIGN_TEST_RUN"  # in the environment of all that tests start


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "seconds_max(seconds): how long this test may take")
    config.pluginmanager.register(Watchdog(config))


class Watchdog:
    """Watches one run."""

    def __init__(self, config: pytest.Config) -> None:
        self._stderr = os.dup(2)  # pytest captures nothing yet
        self._mark = os.environ[MARK] = uuid.uuid4().hex
        self._config = config
        self._known = set(threading.enumerate())
        self._test: tuple[str, float, float] | None = None  # name, deadline, limit
        self._leaks: list[str] = []
        self._is_stuck = False
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    # While tests run.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        limit = limit_of(item)
        self._test = item.nodeid, time.monotonic() + limit, limit
        # For code that never gives a thread of Python's its turn.
        faulthandler.dump_traceback_later(limit + 30, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            self._test = None
            faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while True:
            time.sleep(0.2)
            test = self._test
            if test is not None and time.monotonic() > test[1]:
                name, _, limit = test
                self._say(f"\n\nHUNG: {name} took more than {limit:g} s. All threads:\n")
                faulthandler.dump_traceback(self._stderr)
                self._say("".join(f"{line}\n" for line in self._end_processes()))
                os._exit(1)

    def _say(self, text: str) -> None:
        os.write(self._stderr, text.encode())

    # At the end.

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        faulthandler.dump_traceback_later(EXIT_SECONDS_MAX, exit=True, file=self._stderr)
        threads = self._left_threads()
        self._is_stuck = bool(threads)
        self._leaks = [*map(_told, threads), *self._end_processes()]
        if self._leaks and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._leaks:
            terminalreporter.section("left behind by tests", red=True)
            for text in self._leaks:
                terminalreporter.line(text)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_unconfigure(self) -> Iterator[None]:
        result = yield
        if self._is_stuck:  # Python would wait for these threads for ever
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        return result

    def _left_threads(self) -> list[threading.Thread]:
        deadline = time.monotonic() + GRACE_SECONDS
        mine = [one for one in threading.enumerate() if one not in self._known and not one.daemon]
        for one in mine:
            one.join(max(0.0, deadline - time.monotonic()))
        return [one for one in mine if one.is_alive()]

    def _end_processes(self) -> list[str]:
        """Kills what tests started and left; names each."""
        deadline = time.monotonic() + GRACE_SECONDS
        while (found := self._left_processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"process {pid}, killed now: {command}" for pid, command in found.items()]

    def _left_processes(self) -> dict[int, str]:
        """Our children, and whoever has our mark or works in a directory of ours."""
        places = [place.encode() for place in MADE]
        basetemp = getattr(self._config, "_tmp_path_factory", None)
        if basetemp is not None and basetemp._basetemp is not None:
            places.append(os.fsencode(basetemp._basetemp))
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                command = (place / "cmdline").read_bytes()
                if not command or int(place.name) == os.getpid() or b"multiprocessing" in command:
                    continue  # a zombie, ourselves, or a helper of Python's that ends with us
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                is_marked = f"{MARK}={self._mark}".encode() in (place / "environ").read_bytes()
                if parent == os.getpid() or is_marked or any(one in command for one in places):
                    text = command.replace(b"\0", b" ").decode(errors="replace")
                    found[int(place.name)] = text[:200]
        return found


def limit_of(item: pytest.Item) -> float:
    """How many seconds a test may take, with its fixtures."""
    marker = item.get_closest_marker("seconds_max")
    if marker is not None:
        return float(marker.args[0])
    fitting = [s for name, s in SECONDS_MAX.items() if not name or item.get_closest_marker(name)]
    return fitting[-1]


def _told(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
    return f"thread {thread.name}, which is no daemon and still runs:\n{stack}"
