"""The supervisor on its own: its log, its records, its size, and crashes at the worst moments."""

from __future__ import annotations

import fcntl
import json
import os
import py_compile
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.apps.agent.processes import is_alive

from numalign.adapters.processes import shim

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)")


class Started:
    """A supervisor that a test has started, with all that a runtime would give it."""

    def __init__(
        self, folder: Path, program: Path, items: list[str], *, listening: bool = True
    ) -> None:
        folder.mkdir()
        self.folder, self.log = folder, folder / "log"
        (folder / "spec").write_text("\0".join([*items, f"log={self.log}"]))
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        report, child_report = os.pipe()
        if not listening:
            os.close(report)
        begun = time.perf_counter()
        self.pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", str(program), str(folder)],
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, child_report, shim.READY_FD),
                (os.POSIX_SPAWN_DUP2, lock, shim.LOCK_FD),
            ],
        )
        os.close(child_report)
        os.close(lock)
        self.report = os.read(report, 4096).decode() if listening else ""
        self.start_seconds = time.perf_counter() - begun
        if listening:
            os.close(report)
        self.code: int | None = None

    def json(self, name: str) -> dict[str, object]:
        return json.loads((self.folder / name).read_text())

    def wait(self) -> dict[str, object]:
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.json("exit.json")

    def lines(self, name: str = "log") -> list[tuple[str, str, str]]:
        texts = (self.folder / name).read_text().splitlines()
        matches = [LINE.fullmatch(text) for text in texts]
        assert all(matches), texts
        return [match.groups() for match in matches if match]

    def is_lock_free(self) -> bool:
        with (self.folder / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def end(self) -> None:
        if self.code is None:
            run = self.folder / "run.json"
            if run.exists():
                with_child = self.json("run.json")["child"]
                with suppress(ProcessLookupError):
                    os.kill(int(str(with_child)), signal.SIGKILL)
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                return


Start = Callable[..., Started]


def until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    program = tmp_path / "supervisor.pyc"
    py_compile.compile(shim.__file__, cfile=str(program), doraise=True)
    started: list[Started] = []

    def begin(
        *argv: str,
        bytes_max: int = 10**7,
        files_max: int = 3,
        more: str = "",
        listening: bool = True,
    ) -> Started:
        items = [f"argv={text}" for text in argv]
        items += ["env=PATH=/usr/bin:/bin", "env=EMPTY=", "cwd=/", *([more] if more else [])]
        items += [f"log_bytes_max={bytes_max}", f"log_files_max={files_max}"]
        started.append(
            Started(tmp_path / f"run{len(started)}", program, items, listening=listening)
        )
        return started[-1]

    yield begin
    for one in started:
        one.end()


def test_output_is_logged_in_the_format_of_the_cri(start: Start) -> None:
    long = "x" * (shim.LINE_BYTES_MAX + 5)
    script = f"echo one; echo two >&2; echo; echo {long}; printf 'no end'"
    one = start("sh", "-c", script)
    assert one.report == "ok"
    assert one.wait()["code"] == 0
    out = [(tag, text) for stream, tag, text in one.lines() if stream == "stdout"]
    assert out[:2] == [("F", "one"), ("F", "")]
    # A long line comes in parts or whole, depending on how it was read; nothing of it is lost.
    assert "".join(text for _, text in out[2:]) == long + "no end"
    assert out[-1] == ("F", "no end")
    assert [line for line in one.lines() if line[0] == "stderr"] == [("stderr", "F", "two")]


def test_an_endless_line_is_cut_into_parts(start: Start) -> None:
    one = start("sh", "-c", "head -c 200000 /dev/zero | tr '\\0' y")
    one.wait()
    assert {tag for _, tag, _ in one.lines()[:-1]} == {"P"}
    assert sum(len(text) for _, _, text in one.lines()) == 200_000
    assert max(len(text) for _, _, text in one.lines()) <= shim.LINE_BYTES_MAX


def test_a_log_is_rotated_and_stays_within_its_bounds(start: Start) -> None:
    one = start("seq", "20000", bytes_max=100_000, files_max=3)
    one.wait()
    names = sorted(path.name for path in one.folder.glob("log*"))
    assert names == ["log", "log.1", "log.2"]
    assert all((one.folder / name).stat().st_size <= 100_000 for name in names)
    kept = [int(text) for name in reversed(names) for _, _, text in one.lines(name)]
    assert kept == list(range(kept[0], 20_001))  # the newest, in order, without a hole


def test_a_log_that_cannot_be_written_does_not_stop_the_container(start: Start) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    one = start("sh", "-c", "echo lost; exit 4", more="log=/dev/full")
    assert one.wait()["code"] == 4


def test_the_exit_record_says_how_it_ended(start: Start) -> None:
    cases = [("exit 0", 0, 0), ("exit 255", 255, 0), ("kill -9 $$", 137, 9), ("kill -6 $$", 134, 6)]
    for script, code, number in cases:
        one = start("sh", "-c", script)
        ended = one.wait()
        assert (ended["code"], ended["signal"], one.code) == (code, number, code)
        assert one.is_lock_free()
        assert not list(one.folder.glob("*.tmp"))


def test_who_runs_is_on_the_disk_before_the_command_runs(start: Start, tmp_path: Path) -> None:
    one = start("cat", str(tmp_path / "run0" / "run.json"))
    one.wait()
    told = json.loads(one.lines()[0][2])
    assert told == one.json("run.json")
    assert told["supervisor"] == one.pid
    assert told["child_start"] >= told["supervisor_start"]


def test_nothing_runs_when_the_supervisor_dies_before_it_has_recorded_it(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    (tmp_path / "run.json.tmp").mkdir()  # in the way, so the record cannot be written
    items = ["argv=touch", f"argv={witness}", "env=PATH=/usr/bin:/bin", "cwd=/"]
    items += ["log_bytes_max=1000", "log_files_max=2", f"log={tmp_path}/log"]
    (tmp_path / "spec").write_text("\0".join(items))
    with (tmp_path / "lock").open("w") as lock:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH, str(lock.fileno()), shim.__file__, str(tmp_path)],
            pass_fds=(lock.fileno(),),
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode != 0
    assert b"IsADirectoryError" in done.stderr
    assert not witness.exists()


# Waits for the supervisor and then for all that it left behind.
LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
os.dup2(int(sys.argv[1]), 3)
if pid := os.fork():
    _, status = os.waitpid(pid, 0)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        sys.exit(os.waitstatus_to_exitcode(status))
os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", *sys.argv[2:]])
"""


def test_a_container_runs_to_its_end_when_nobody_waits_for_its_start(start: Start) -> None:
    one = start("sh", "-c", "sleep 0.05; echo done; exit 8", listening=False)
    assert one.wait()["code"] == 8
    assert one.lines() == [("stdout", "F", "done")]


def test_the_lock_lives_as_long_as_the_supervisor_and_not_as_the_container(start: Start) -> None:
    one = start("sleep", "60")
    child = int(str(one.json("run.json")["child"]))
    assert not one.is_lock_free()
    os.kill(one.pid, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    assert one.is_lock_free()
    assert is_alive(child)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_signals_reach_the_first_process(start: Start, name: str) -> None:
    short = name.removeprefix("SIG")
    one = start("sh", "-c", f"trap 'exit 9' {short}; echo ready; while :; do sleep 0.01; done")
    until(lambda: one.log.exists() and one.log.read_text())
    os.kill(one.pid, signal.Signals[name])
    assert one.wait()["code"] == 9


def test_the_command_starts_with_a_clean_slate(start: Start) -> None:
    script = (
        "import os,signal\n"
        "print(sorted(map(int,os.listdir('/proc/self/fd'))))\n"
        "print(signal.getsignal(signal.SIGXFSZ)==signal.SIG_IGN, signal.pthread_sigmask(0,[]))\n"
        "print(sorted(os.environ))\n"
    )
    python = sys.executable
    one = start(python, "-I", "-S", "-c", script)
    assert one.wait()["code"] == 0
    texts = [text for _, _, text in one.lines()]
    assert texts[0] == "[0, 1, 2, 3]"  # the last is that of the listing itself
    assert texts[1].endswith("set()")
    assert set(json.loads(texts[2].replace("'", '"'))) - {"LC_CTYPE"} == {"EMPTY", "PATH"}
    status = start("grep", "SigIgn", "/proc/self/status")
    status.wait()
    # The two after the first 31 are the C library's own business.
    assert int(status.lines()[0][2].split()[1], 16) & 0x7FFFFFFF == 0


def test_orphans_are_reaped(start: Start) -> None:
    script = "for i in 1 2 3 4 5; do (sleep 0.01 & echo $!); done; sleep 1000"
    one = start("sh", "-c", script)
    until(lambda: one.log.exists() and len(one.lines()) == 5)
    orphans = [text for _, _, text in one.lines()]
    # Ended and asked for, each of them, while the first process goes on.
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))
    assert is_alive(int(str(one.json("run.json")["child"])))
    os.kill(one.pid, signal.SIGTERM)
    one.wait()


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("/no/such",), 127, "/no/such: command not found"),
        (("/etc/passwd",), 126, "Permission denied"),
        (("/",), 126, "Permission denied"),
    ],
)
def test_a_failed_exec_is_recorded(
    start: Start, argv: tuple[str, ...], code: int, text: str
) -> None:
    one = start(*argv)
    ended = one.wait()
    assert one.report == f"{code} {ended['message']}"
    assert (ended["code"], ended["message"]) == (
        code,
        f"{argv[0]}: {text}".replace(f"{argv[0]}: {argv[0]}", argv[0]),
    )


def test_a_message_stays_valid_json_whatever_the_command_is_called(start: Start) -> None:
    one = start('/x/"quoted"\\\n\u00e4' + "y" * 2000)
    ended = one.wait()
    assert ended["code"] == 127
    assert '"quoted"\\??' in str(ended["message"]).replace("???", "??")


def test_it_is_small_and_starts_quickly(start: Start) -> None:
    runs = [start("sleep", "60") for _ in range(5)]
    sizes = []
    for one in runs:
        text = Path(f"/proc/{one.pid}/status").read_text()
        sizes.append(int(re.search(r"VmRSS:\s*(\d+)", text)[1]))
        os.kill(one.pid, signal.SIGTERM)
        one.wait()
    # Budgets: 9 MB and 40 ms on an idle host; hosts that run tests are seldom idle.
    assert statistics.median(sizes) < 10 * 1024
    assert min(one.start_seconds for one in runs) < 20, "it does not start"


def test_lists_of_ids_are_read_as_the_kernel_writes_them() -> None:
    assert shim.ids("0-3,8,10-11") == [0, 1, 2, 3, 8, 10, 11]
