"""The way in and the way out of ``numalign``: every run starts and ends here.

Exit codes: 0 yes or done, 1 no or failed, 2 wrong usage or bad input, 130 interrupted,
141 when the reader of our output has gone. An error of ours is one line on stderr; a bug
is one line too, and its traceback is shown with -v. Imports are inside the functions, since
``--help`` should come at once.
"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # as in typing, which takes as long to load as all of --help
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from numalign.cli.output import Settings

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
COMPLETE_VARIABLE: Final = "_NUMALIGN_COMPLETE"  # set when a shell asks for the next words
PROGRAM: Final = "numalign"
PLUGIN: Final = "kubectl-numa"  # the name under which kubectl finds us
# Loading a command makes tens of thousands of objects that stay: looking through them for garbage
# again and again, as Python does by default, takes a sixth of a short command's time.
GARBAGE_EVERY: Final = 50_000


def run() -> None:
    """Run the command line of this process and exit with its code."""
    gc.set_threshold(GARBAGE_EVERY)
    sys.exit(main(sys.argv[1:]))


def program() -> str:
    """What the user has typed to get here."""
    called = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 - quick to load
    return PLUGIN.replace("-", " ") if called == PLUGIN else PROGRAM


def main(args: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    if sys.flags.optimize:
        _say(
            "error: numalign does not run under python -O or PYTHONOPTIMIZE, because that "
            "removes the checks which keep it from writing wrong state."
        )
        return USAGE
    try:
        code = _at_once(args)
        if code is None:
            code = _guarded(args)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _at_once(args: Sequence[str]) -> int | None:
    """What can be answered without loading anything else; None if it cannot."""
    if len(args) > 1 or COMPLETE_VARIABLE in os.environ:
        return None
    asked = args[0] if args else "nothing"
    if asked == "--version":
        from numalign import __version__

        print(f"numalign {__version__}")
        return OK
    if asked not in ("nothing", "-h", "--help"):
        return None
    from numalign.cli.commands import root_help

    print(root_help())
    return OK if args else USAGE


def _guarded(args: Sequence[str]) -> int:
    from numalign.cli.output import Settings
    from numalign.core.errors import NumalignError

    settings = Settings()
    try:
        from numalign.cli.app import invoke

        return invoke(args, settings)
    except BrokenPipeError:
        raise
    except NumalignError as exc:
        return _ours(exc, settings)
    except ModuleNotFoundError as exc:
        from numalign.cli.extras import not_installed

        asked = not_installed(exc, args[0] if args else "")
        return _bug(exc, settings) if asked is None else _ours(asked, settings)
    except Exception as exc:
        return _bug(exc, settings)


def _ours(exc: Exception, settings: Settings) -> int:
    """An error that was foreseen: bad input, or something that failed."""
    from numalign.core.errors import ConfigError, DiscoveryError, WireError
    from numalign.core.kubelet.start_advice import with_advice

    _say(f"error: {with_advice(one_line(str(exc)))}")
    if settings.verbosity and exc.__cause__ is not None:
        cause = exc.__cause__
        _say(f"debug: because of {type(cause).__name__}: {one_line(str(cause))}")
    return USAGE if isinstance(exc, ConfigError | DiscoveryError | WireError) else FAILED


def _bug(exc: Exception, settings: Settings) -> int:
    if settings.verbosity:
        import traceback

        _say("".join(traceback.format_exception(exc)).rstrip())
    text = one_line(str(exc)) or "no details"
    _say(f"error: unexpected {type(exc).__name__}: {text}")
    if not settings.verbosity:
        _say("This is a bug in numalign. Run the command again with -v to see where it happened.")
    return FAILED


def one_line(text: str) -> str:
    """The text on one line, without characters that a terminal would act on."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in joined)


def _say(text: str) -> None:
    """Write to stderr, and do not mind if nobody listens there."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        return


def _forget_stdout() -> None:
    """Let the interpreter flush into nothing when it ends, instead of failing once more."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
