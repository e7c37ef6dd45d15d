"""What is kept is whole, made once, and a program is built again when its source changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.real.go_program import go_program
from tests.real.kept import CommandError, MissingError, fetch_output, kept, output

MAIN = 'package main\n\nfunc main() { println("%s") }\n'


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(scratch: Path, ready: Path) -> None:
        made.append(scratch)
        ready.write_text("whole")

    for _ in range(2):
        place = kept(tmp_path / "deep" / "thing", make)
        assert place.read_text() == "whole"
    assert len(made) == 1
    assert not made[0].exists()


def test_what_was_not_finished_is_never_taken(tmp_path: Path) -> None:
    def fail(_scratch: Path, ready: Path) -> None:
        ready.write_text("half")
        raise CommandError("no space")

    with pytest.raises(CommandError):
        kept(tmp_path / "thing", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".thing.lock"]


def test_a_command_that_fails_or_hangs_says_which_and_why(tmp_path: Path) -> None:
    assert output(["pwd"], seconds_max=10, folder=tmp_path).strip() == str(tmp_path)
    assert output(["sh", "-c", "echo $A"], seconds_max=10, env={"A": "b"}) == "b\n"
    with pytest.raises(CommandError, match=r"^sh -c echo why >&2; exit 3: why$"):
        output(["sh", "-c", "echo why >&2; exit 3"], seconds_max=10)
    with pytest.raises(CommandError, match=r"^sleep 60: no end after 0\.1 s$"):
        output(["sleep", "60"], seconds_max=0.1)


def test_what_cannot_be_fetched_is_missing_in_one_line() -> None:
    with pytest.raises(MissingError) as caught:
        fetch_output("the thing", ["sh", "-c", "printf 'a\\nb\\n' >&2; exit 1"])
    text = str(caught.value)
    assert text.startswith("the thing cannot be fetched: sh -c ")
    assert text.endswith(": a b")


@pytest.mark.e2e
def test_a_program_is_built_again_when_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    # Go's own cache would move with the other variable.
    monkeypatch.setenv("GOCACHE", output(["go", "env", "GOCACHE"], seconds_max=60).strip())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module = tmp_path / "module"
    (module / "said").mkdir(parents=True)
    (module / "go.mod").write_text("module said\n\ngo 1.25.0\n")
    source = module / "said" / "main.go"
    source.write_text(MAIN % "one")
    reports: list[str] = []
    built = [go_program("said", module, "./said", report=reports.append) for _ in range(2)]
    assert built[0] == built[1]
    assert len(reports) == 1
    source.write_text(MAIN % "two")
    again = go_program("said", module, "./said", report=reports.append)
    assert [_said(built[0]), _said(again)] == ["one", "two"]
    source.write_text("no program")
    with pytest.raises(CommandError, match="expected 'package'"):
        go_program("said", module, "./said", report=reports.append)


def _said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr.strip()
