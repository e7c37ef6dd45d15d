"""The frame around all commands: how they are found, their help, and the common options.

Commands are loaded when called (see ``commands``). Every command takes -v and --no-color at
its own place on the line too, without declaring them.
"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from numalign.cli.commands import GROUPS, Entry, root_help
from numalign.cli.main import COMPLETE_VARIABLE, OK, PROGRAM, USAGE, one_line, program
from numalign.cli.options import optional
from numalign.cli.output import Settings

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


def invoke(args: Sequence[str], settings: Settings) -> int:
    """Read and run a command line; the exit code."""
    root = root_command()
    if COMPLETE_VARIABLE in os.environ:
        return _complete(root, args)
    try:
        with root.make_context(program(), list(args), obj=settings) as ctx:
            result = root.invoke(ctx)
    except typer.Exit as exc:
        return exc.exit_code
    except typer.Abort:
        return 1
    except typer.TyperException as exc:
        return _usage(exc)
    return result if isinstance(result, int) else OK


def new_app(cls: type[TyperGroup] | None = None) -> typer.Typer:
    """An empty app for the module of a command."""
    return typer.Typer(
        cls=cls,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=dict(_CONTEXT),
    )


def examples(*lines: str) -> str:
    """The end of a help text: command lines that can be copied."""
    own = program()
    if own != PROGRAM:
        lines = tuple(line.replace(f"{PROGRAM} ", f"{own} ") for line in lines)
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def root_command() -> Any:  # noqa: ANN401 - typer's own base class is private
    """The command that holds all others."""
    app = new_app(cls=_Root)
    app.callback()(_root)
    return get_command(app)


class _Root(TyperGroup):
    """The commands of the table, each loaded when called."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - typer's own arguments
        super().__init__(**attrs)
        for _, entries in GROUPS:
            for entry in entries:
                self.add_command(_Lazy(entry))

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """The help that ``main`` gives too, without typer."""
        formatter.write(root_help())


class _Lazy(TyperCommand):
    """Stands for a command until it is called."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, short_help=entry.summary, rich_markup_mode=None)
        self._entry = entry

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - typer's own types
        """The context of the real command, which runs instead of this one."""
        return load(self._entry).make_context(*args, **extra)


def load(entry: Entry) -> Any:  # noqa: ANN401 - typer's own base class is private
    """The real command of an entry, with the common options."""
    command = get_command(import_module(entry.module).app)
    command.name = entry.name
    _add_common(command)
    return command


def _add_common(command: Any) -> None:  # noqa: ANN401
    command.params.extend(_common_options())
    for below in getattr(command, "commands", {}).values():
        _add_common(below)


def _common_options() -> list[Any]:
    app = new_app()
    app.command()(_common)
    return list(get_command(app).params)


def _no_color(ctx: typer.Context, value: bool) -> None:
    settings = ctx.find_root().obj
    if value and isinstance(settings, Settings):
        settings.no_color = True


def _verbose(ctx: typer.Context, value: int) -> None:
    settings = ctx.find_root().obj
    if value and isinstance(settings, Settings):
        settings.verbosity += value


def _version(value: bool) -> None:
    if value:
        from numalign import __version__

        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


_NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_no_color,
        expose_value=False,
        help="Do not colour the output; NO_COLOR in the environment does the same.",
    ),
]
_Verbose = Annotated[
    int,
    optional(
        "-v",
        "--verbose",
        count=True,
        callback=_verbose,
        expose_value=False,
        help="Say more on stderr; for a bug, where it happened. Repeat for yet more.",
    ),
]
_Version = Annotated[
    bool,
    typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
]


def _common(no_color: _NoColor = False, verbose: _Verbose = 0) -> None:
    """Only its options count."""


def _root(version: _Version = False, no_color: _NoColor = False, verbose: _Verbose = 0) -> None:
    """Only its options count."""


def _usage(exc: typer.TyperException) -> int:
    """One line for a command line that we cannot read."""
    ctx = getattr(exc, "ctx", None)
    where = ctx.command_path if ctx is not None else program()
    message = one_line(exc.format_message()).rstrip(".")
    stop = "" if message.endswith("?") else "."
    print(f"error: {message}{stop} See '{where} --help'.", file=sys.stderr)
    return USAGE


def _complete(root: Any, args: Sequence[str]) -> int:  # noqa: ANN401
    """Answer the shell's question which words may come next."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # typer offers it to no one, yet nothing else registers its shells

    completion_init()
    try:
        root.main(args=list(args), prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else OK
    return OK
