"""Runs mutated inputs in processes of their own, and measures each of them."""

import random
import resource
import signal
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.bombs import bombs
from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import Parser, parsers, through_the_host

SECONDS_MAX = 5.0
BYTES_MAX = 300 << 20
BATCH = 500


@dataclass(frozen=True)
class Failure:
    parser: str
    number: int
    what: str
    data: bytes


@dataclass
class Outcome:
    inputs: int = 0
    parsers: int = 0
    read: int = 0
    refused: int = 0
    seconds_max: float = 0.0
    slowest: str = ""
    bytes_max: int = 0
    largest: str = ""
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.inputs += other.inputs
        self.read += other.read
        self.refused += other.refused
        self.failures += other.failures
        if other.bytes_max > self.bytes_max:
            self.bytes_max, self.largest = other.bytes_max, other.largest
        if other.seconds_max > self.seconds_max:
            self.seconds_max, self.slowest = other.seconds_max, other.slowest


class HangError(BaseException):
    """Not an Exception: nobody may catch it on the way."""


def _ring(*_):
    raise HangError


def fuzz(inputs: int, *, seed: int = 0, jobs: int = 1, only: str = "") -> Outcome:
    """That many inputs, shared among the parsers; the same seed gives the same inputs."""
    names = [one.name for one in parsers() if only in one.name]
    each = -(-inputs // max(len(names), 1))
    work = [
        (name, seed, start, min(BATCH, each - start))
        for name in names
        for start in range(0, each, BATCH)
    ]
    whole = Outcome(parsers=len(names))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(batch, *zip(*work, strict=True)):
            whole.add(found)
    if only:
        return whole
    # Each in a process of its own: what one leaves behind must not count for the next.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for found in pool.map(bomb, list(bombs())):
            whole.add(found)
    return whole


def batch(name: str, seed: int, start: int, count: int) -> Outcome:
    """One parser, so many inputs of it."""
    [parser] = [one for one in parsers() if one.name == name]
    found = Outcome()
    for number in range(start, start + count):
        rng = random.Random(f"{seed} {name} {number}")
        data = mutated(rng, rng.choice(parser.seeds), parser.seeds)
        found.add(tried(parser, data, number))
    return found


def bomb(name: str) -> Outcome:
    return tried(Parser(name, [], through_the_host), bombs()[name](), 0)


def tried(parser: Parser, data: bytes, number: int, bytes_max=BYTES_MAX) -> Outcome:
    """What one input does."""
    found = Outcome(inputs=1)
    what = ""
    before = _reset_peak()
    signal.signal(signal.SIGPROF, _ring)
    signal.signal(signal.SIGALRM, _ring)
    # By the time that the process itself uses: others may be busy on this machine too.
    signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)
    signal.setitimer(signal.ITIMER_REAL, 12 * SECONDS_MAX)
    start = time.process_time()
    try:
        parser.parse(data)
        found.read = 1
    except parser.refusals as error:
        found.refused = 1
        what = _fault_in(str(error))
    except HangError:
        what = f"took more than {SECONDS_MAX:g} s\n{_place()}"
    except Exception:
        what = traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    found.seconds_max, found.slowest = time.process_time() - start, parser.name
    found.bytes_max = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    found.largest = parser.name
    if found.bytes_max > bytes_max and not what:
        what = f"the process has {found.bytes_max >> 20} MiB, before it {before >> 20} MiB"
    if what:
        found.failures.append(Failure(parser.name, number, what, data))
    return found


def _fault_in(text: str) -> str:
    """What is wrong with a refusal itself: it is shown to people, in the log and in JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"a refusal that cannot be written: {text[:200]!r}"
    return ""


def _place() -> str:
    return traceback.format_exc(limit=-6)


def _reset_peak() -> int:
    """Forgets the highest amount of memory of this process so far; how much it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
