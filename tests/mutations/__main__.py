"""``python -m tests.mutations``: apply each breakage to a copy, run its tests, expect red."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.access import MUTATIONS as ACCESS
from tests.mutations.browser import MUTATIONS as BROWSER
from tests.mutations.confinement import MUTATIONS as CONFINEMENT
from tests.mutations.core import MUTATIONS as CORE
from tests.mutations.daemons import MUTATIONS as DAEMONS
from tests.mutations.fleet import MUTATIONS as FLEET
from tests.mutations.nri import MUTATIONS as NRI
from tests.mutations.page import MUTATIONS as PAGE
from tests.mutations.room import MUTATIONS as ROOM
from tests.paths import CHECKOUT

Mutation = tuple[str, str, str, str, str]  # what breaks, file, old text, new text, tests
MUTATIONS: Sequence[Mutation] = (
    *ACCESS,
    *DAEMONS,
    *ROOM,
    *CONFINEMENT,
    *CORE,
    *NRI,
    *FLEET,
    *PAGE,
    *BROWSER,
)
COPIED = ("src", "tests", "tools", "docs", "examples", "pyproject.toml")
SECONDS_MAX = 300


def fault_of(mutation: Mutation) -> str:
    """What is wrong with an entry of the list itself; empty if it can be applied."""
    _, file, old, new, _ = mutation
    found = (CHECKOUT / file).read_text().count(old)
    if found != 1:
        return f"{file}: found the old text {found} times, expected once"
    return "the new text is the old one" if old == new else ""


def run_tests(copy: Path, tests: Iterable[str], seconds_max: int = SECONDS_MAX) -> tuple[int, str]:
    """Runs tests on a copy of the tree; pytest's exit status, and what it said."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{copy}/src:{copy}"}
    done = subprocess.run(
        command,
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds_max,
        check=False,
    )
    return done.returncode, done.stdout


def survives(mutation: Mutation, copy: Path) -> bool:
    """Whether the tests beside a breakage still pass with it."""
    _, file, old, new, tests = mutation
    path = copy / file
    whole = path.read_text()
    path.write_text(whole.replace(old, new))
    try:
        status, _ = run_tests(copy, tests.split())
    except subprocess.TimeoutExpired:
        return False  # a breakage that hangs is noticed too
    finally:
        path.write_text(whole)
    # 1: tests failed; 2: a module cannot even be loaded. Anything else says nothing.
    return status not in {1, 2}


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tree that may be broken."""
    with tempfile.TemporaryDirectory(prefix="numalign-mutations-") as name:
        copy = Path(name)
        for part in COPIED:
            source = CHECKOUT / part
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / part, ignore=ignored)
            else:
                shutil.copy(source, copy / part)
        yield copy


def redness(mutations: Iterable[Mutation]) -> str:
    """How the named tests fail on the tree as it is, "" if they do not: red ones catch anything."""
    tests = sorted({test for *_, tests in mutations for test in tests.split()})
    with copied() as copy:
        status, said = run_tests(copy, tests, 10 * SECONDS_MAX)
        return said if status else ""


def check(numbered: Sequence[tuple[int, Mutation]]) -> list[str]:
    """Tries these on one copy of the tree; the names of those that nobody noticed."""
    left = []
    with copied() as copy:
        for number, mutation in numbered:
            is_left = survives(mutation, copy)
            outcome = "NOT CAUGHT" if is_left else "caught"
            print(f"{number:3} {outcome}: {mutation[0]}", flush=True)
            if is_left:
                left.append(mutation[0])
    return left


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print one line each, and run nothing")
    parser.add_argument("--only", default="", help="only those whose line contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time (2)")
    options = parser.parse_args()
    chosen = [
        (number, one)
        for number, one in enumerate(MUTATIONS, 1)
        if options.only in f"{one[0]} {one[1]}"
    ]
    faults = [f"{one[0]}: {text}" for _, one in chosen if (text := fault_of(one))]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 2
    if options.list:
        for number, (name, file, _, _, tests) in chosen:
            print(f"{number:3} {name}  [{file}; {tests}]")
        return 0
    if said := redness(one for _, one in chosen):
        print(said[-4000:], file=sys.stderr)
        print("the tests beside the breakages fail on the unbroken tree", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = [chosen[start :: options.jobs] for start in range(options.jobs)]
        left = [name for part in pool.map(check, parts) for name in part]
    print(f"{len(chosen) - len(left)} of {len(chosen)} caught")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
