"""``python -m tests.fuzz.guided``: inputs that find their own way into each parser, by coverage.

Needs atheris (``make fuzz`` installs it). Each parser runs in a process of its own and goes on from
the corpus of the last run. What went wrong is kept beside the corpus and printed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.paths import CHECKOUT

CORPUS: Final = CHECKOUT / ".fuzz"
SECONDS_MIN: Final = 15  # for one parser, of which some go into loading it
_INPUT_SECONDS_MAX: Final = 20
_MEMORY_MB_MAX: Final = 1024
_BYTES_MAX: Final = 64 * 1024


def names() -> list[str]:
    """The parsers that take bytes as they are."""
    from tests.fuzz.parsers import parsers

    return [one.name for one in parsers()]


def run_one(name: str, seconds: int, corpus: Path) -> None:
    """Fuzzes one parser in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["numalign"]):
        from tests.fuzz.parsers import parsers

    [parser] = [one for one in parsers() if one.name == name]
    place = corpus / _file_name(name)
    (place / "found").mkdir(parents=True, exist_ok=True)
    (place / "inputs").mkdir(exist_ok=True)
    for seed in parser.seeds:
        digest = hashlib.sha1(seed, usedforsecurity=False).hexdigest()
        (place / "inputs" / digest).write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            parser.parse(data)
        except parser.refusals as error:
            str(error).encode()  # a refusal is shown to people

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={_MEMORY_MB_MAX}",
        f"-max_len={_BYTES_MAX}",
        f"-artifact_prefix={place}/found/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(place / "inputs")], one_input)
    atheris.Fuzz()


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)


def _started(name: str, seconds: int, corpus: Path) -> tuple[str, int, str]:
    command = [sys.executable, "-m", "tests.fuzz.guided", "--one", name]
    command += ["--seconds", str(seconds), "--corpus", str(corpus)]
    most = seconds + 10 * _INPUT_SECONDS_MAX
    found = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=most, check=False
    )
    return name, found.returncode, found.stdout + found.stderr


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    options.add_argument("--seconds", type=int, default=300, help="for all parsers together")
    options.add_argument("--jobs", type=int, default=2, help="processes side by side")
    options.add_argument("--only", default="", help="parsers whose name has this text in it")
    options.add_argument("--corpus", type=Path, default=CORPUS, help="what is gone on from")
    options.add_argument("--one", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.one:
        run_one(asked.one, asked.seconds, asked.corpus)
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("guided fuzzing is left out: atheris is not installed here", file=sys.stderr)
        return 0
    chosen = [name for name in names() if asked.only in name]
    each = max(SECONDS_MIN, asked.seconds * asked.jobs // max(len(chosen), 1))
    started, wrong, inputs = time.monotonic(), 0, 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for name, code, said in pool.map(lambda one: _started(one, each, asked.corpus), chosen):
            counted = [line for line in said.splitlines() if "number_of_executed_units" in line]
            inputs += int(counted[-1].split()[-1]) if counted else 0
            if code:
                wrong += 1
                print(f"{name}: {said[-3000:]}")
    print(
        f"{inputs} guided inputs over {len(chosen)} parsers in "
        f"{time.monotonic() - started:.0f} s: {wrong} parsers with findings"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
