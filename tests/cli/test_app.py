"""What every command does alike: help, version, exit codes, errors, colours, pipes, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import PYTHON, environment, started

from numalign import __version__
from numalign.cli.app import load, root_command
from numalign.cli.commands import GROUPS
from numalign.cli.main import main, one_line

ENTRIES = [entry for _, entries in GROUPS for entry in entries]
EVERY = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)


def test_help_lists_every_command_with_its_summary(numalign):
    result = numalign("--help")
    assert (result.returncode, result.stderr) == (0, "")
    for entry in ENTRIES:
        assert f"{entry.name}  " in result.stdout
        assert entry.summary in result.stdout
    assert "Examples:\n  numalign topology\n" in result.stdout


@EVERY
def test_every_command_has_help_with_two_to_four_examples(entry, capsys):
    assert main([entry.name, "--help"]) == 0
    before, _, after = capsys.readouterr().out.partition("Examples:\n")
    assert f"Usage: numalign {entry.name}" in before
    assert {"-v, --verbose", "--no-color"} <= {
        o for o in ("-v, --verbose", "--no-color") if o in before
    }
    lines = [line for line in after.splitlines() if line.strip()]
    assert 2 <= len(lines) <= 4
    assert all("numalign " in line for line in lines)


@EVERY
def test_the_summary_in_the_table_is_that_of_the_command(entry):
    assert load(entry).help.partition("\n")[0] == entry.summary


def test_names_of_commands_are_told_apart():
    names = [entry.name for entry in ENTRIES]
    assert len(names) == len(set(names))
    assert list(root_command().commands) == names


def loaded_by(*args: str) -> set[str]:
    """The modules that are loaded after a command line has run."""
    code = f"import sys; from numalign.cli.main import main; main({list(args)!r})\n"
    command = [sys.executable, "-c", code + "print(*sys.modules, file=sys.stderr)"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def test_help_is_quick_because_it_loads_next_to_nothing():
    found = loaded_by("--help")
    assert not {"typing", "dataclasses", "re", "inspect", "typer"} & found
    assert {name for name in found if name.startswith("numalign")} == {
        "numalign",
        "numalign.cli",
        "numalign.cli.commands",
        "numalign.cli.main",
    }


@EVERY
def test_the_help_of_a_command_loads_nothing_heavy(entry):
    heavy = {"rich", "yaml", "msgspec", "resvg_py", "pydantic", "asyncio", "http"}
    assert not heavy & loaded_by(entry.name, "--help")


def test_the_help_of_the_program_tells_all_its_options(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for option in root_command().params:
        assert all(f"{name}" in shown for name in option.opts)
        assert " ".join(option.help.split()) in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) < 80


def test_the_help_of_the_program_is_the_same_behind_other_options(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert main(["-h"]) == 0
    assert main(["-v", "--help"]) == 0
    assert main(["--no-color", "-h"]) == 0
    assert capsys.readouterr().out == shown * 3
    assert main(["-v", "--version"]) == 0
    assert capsys.readouterr().out == f"numalign {__version__}\n"


def test_version(numalign):
    result = numalign("--version")
    assert (result.returncode, result.stdout) == (0, f"numalign {__version__}\n")


def test_the_console_script_is_the_same_as_the_module(numalign):
    script = Path(sys.executable).with_name("numalign")
    assert numalign("--version", command=(str(script),)).stdout == f"numalign {__version__}\n"


def test_no_arguments_give_help_and_the_code_of_wrong_usage(capsys):
    assert main([]) == 2
    assert "Usage: numalign" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["topolgy"],
            "error: No such command 'topolgy'. Did you mean 'topology', 'top'? See 'numalign",
        ),
        (["topology", "--fulll"], "See 'numalign topology --help'."),
        (
            ["topology", "-o", "xml"],
            "'xml' is none of tree, table, json, yaml, svg, png, html, lstopo-misc.",
        ),
        (["machines", "-o", "svg"], "'svg' is none of table, json, yaml."),
        (["topology", "--machine"], "error: Option '--machine' requires an argument."),
        (["topology", "surplus"], "error: Got unexpected extra argument"),
        (["completion"], "error: Missing argument 'SHELL'."),
        (["completion", "tcsh"], "'tcsh' is none of bash, zsh, fish."),
        (["topology", "-m", "no\x1b[31msuch\nmachine"], "error: machine"),
        (["topology", "-m", "vm-2cpu", "--output-file", "/no/such/dir/x.svg"], "cannot write"),
    ],
)
def test_wrong_usage_and_bad_input_are_one_line_and_code_2(args, said, capsys):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_no_error_line_shows_what_a_terminal_would_act_on():
    assert one_line("a\n b\tc\x1b[2J\x07") == r"a b c\x1b[2J\x07"


BROKEN = """
import sys, types, typer
from numalign.cli import app as frame
from numalign.cli.commands import Entry
from numalign.core.errors import ConfigError, PeerError, StartError

app = frame.new_app()

@app.command()
def broken(kind: str) -> int:
    if kind == "bug":
        return 1 // 0
    if kind == "cause":
        try:
            raise FileNotFoundError("the first reason")
        except FileNotFoundError as exc:
            raise ConfigError("the second reason") from exc
    if kind == "peer":
        raise PeerError("nobody answers")
    if kind == "start":
        raise StartError("cpu", "the policy is unknown")
    return int(kind)

module = types.ModuleType("broken")
module.app = app
sys.modules["broken"] = module
frame.GROUPS = (("Test", (Entry("broken", "broken", "Break."),)),)
from numalign.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def broken(numalign):
    return lambda *args: numalign(*args, command=(sys.executable, "-c", BROKEN))


def test_a_bug_is_one_line_and_a_hint_but_no_traceback(broken):
    result = broken("broken", "bug")
    assert result.returncode == 1
    assert result.stderr.startswith("error: unexpected ZeroDivisionError: integer")
    assert "Traceback" not in result.stderr
    assert "with -v" in result.stderr


@pytest.mark.parametrize("args", [("-v", "broken", "bug"), ("broken", "-vv", "bug")])
def test_with_verbose_a_bug_shows_where_it_happened(broken, args):
    result = broken(*args)
    assert result.returncode == 1
    assert "Traceback (most recent call last):" in result.stderr
    assert "in broken" in result.stderr


def test_an_error_of_ours_never_shows_a_traceback(broken):
    result = broken("-v", "broken", "cause")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "error: the second reason",
        "debug: because of FileNotFoundError: the first reason",
    ]
    assert broken("broken", "cause").stderr == "error: the second reason\n"


def test_what_failed_though_the_input_was_right_is_code_1(broken):
    assert broken("broken", "peer").returncode == 1
    assert broken("broken", "start").stderr == "error: the policy is unknown\n"


def test_a_command_answers_yes_or_no_by_its_code(broken):
    assert [broken("broken", code).returncode for code in ("0", "1")] == [0, 1]


@pytest.mark.parametrize("how", [("-O",), ("-OO",)])
def test_it_refuses_to_run_without_its_checks(numalign, how):
    result = numalign("--help", command=(sys.executable, *how, "-m", "numalign"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: numalign does not run under python -O")
    assert result.stderr.count("\n") == 1


def test_the_environment_cannot_take_its_checks_away_either(numalign):
    assert numalign("--version", PYTHONOPTIMIZE="1").returncode == 2


def test_a_terminal_gets_colours(on_terminal):
    code, shown = on_terminal("topology", "-m", "vm-2cpu")
    assert code == 0
    assert "\x1b[1mvm-2cpu\x1b[0m" in shown


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (("topology", "-m", "vm-2cpu", "--no-color"), {}),
        (("--no-color", "topology", "-m", "vm-2cpu"), {}),
        (("topology", "-m", "vm-2cpu"), {"NO_COLOR": "1"}),
        (("topology", "-m", "vm-2cpu"), {"TERM": "dumb"}),
    ],
)
def test_a_terminal_gets_no_colours_if_told_so(on_terminal, args, more):
    code, shown = on_terminal(*args, **more)
    assert (code, "\x1b" in shown) == (0, False)
    assert "NUMA node 0" in shown


def test_a_pipe_gets_no_colours(numalign):
    assert "\x1b" not in numalign("topology", "-m", "vm-2cpu").stdout


def test_a_terminal_without_line_drawing_gets_other_characters(numalign):
    result = numalign("topology", "-m", "vm-2cpu", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "|- Socket 0" in result.stdout


@pytest.mark.parametrize(
    "args", [("topology", "-m", "xeon-8s", "-o", "svg"), ("--help",), ("machines",)]
)
def test_a_reader_that_has_gone_ends_it_quietly(args):
    read, write = os.pipe()
    os.close(read)  # as head does, only sooner
    command = [*PYTHON, *args]
    with subprocess.Popen(
        command, stdout=write, stderr=subprocess.PIPE, env=environment()
    ) as process:
        os.close(write)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_ctrl_c_ends_it_quietly(tmp_path):
    # It waits in the middle of its work: for the other side of a pipe to write.
    pipe = tmp_path / "machine.json"
    os.mkfifo(pipe)
    command = [*PYTHON, "topology", "-m", str(pipe)]
    with (
        started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        pipe.open("wb"),  # returns when the command has opened its side
    ):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def complete(numalign, line: str) -> list[str]:
    words = line.split(" ")
    more = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return numalign(_NUMALIGN_COMPLETE="complete_bash", **more).stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("numalign ", [entry.name for entry in ENTRIES]),
        (
            "numalign topology -o ",
            ["tree", "table", "json", "yaml", "svg", "png", "html", "lstopo-misc"],
        ),
        ("numalign topology --machine xeon-2", ["xeon-2s", "xeon-2s-snc2", "xeon-2s-cxl"]),
        ("numalign topology --fu", ["--full"]),
        ("numalign completion z", ["zsh"]),
    ],
)
def test_the_shell_can_complete(numalign, line, words):
    assert complete(numalign, line) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_NUMALIGN_COMPLETE=complete_{shell}" in script


def test_the_bash_script_completes_in_a_real_bash(tmp_path):
    folder = Path(sys.executable).parent
    code = (
        'eval "$(numalign completion bash)"\n'
        "COMP_WORDS=(numalign mach); COMP_CWORD=1\n"
        "_numalign_completion numalign mach numalign\n"
        'echo "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert result.stdout == "machines\n"


def test_output_is_the_same_from_module_and_function(numalign, capsys):
    assert main(["machines", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(
        numalign("machines", "-o", "json").stdout
    )
