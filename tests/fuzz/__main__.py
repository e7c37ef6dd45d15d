"""``python -m tests.fuzz``: mutated inputs over all parsers; what is wrong is printed and kept."""

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.driver import BYTES_MAX, SECONDS_MAX, fuzz


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--inputs", type=int, default=100_000, help="how many, over all parsers")
    options.add_argument("--seed", type=int, default=0, help="another seed gives other inputs")
    options.add_argument("--jobs", type=int, default=2, help="processes side by side")
    options.add_argument("--only", default="", help="parsers whose name has this text in it")
    options.add_argument("--keep", type=Path, help="where inputs that went wrong are written")
    asked = options.parse_args()
    start = time.monotonic()
    found = fuzz(asked.inputs, seed=asked.seed, jobs=asked.jobs, only=asked.only)
    for number, one in enumerate(found.failures):
        print(f"{one.parser} (input {one.number}): {one.what}")
        if asked.keep is not None:
            asked.keep.mkdir(parents=True, exist_ok=True)
            (asked.keep / f"{number:03d}").write_bytes(one.data)
    print(
        f"{found.inputs} inputs over {found.parsers} parsers in {time.monotonic() - start:.0f} s: "
        f"{found.read} read, {found.refused} refused, {len(found.failures)} wrong\n"
        f"the slowest: {found.seconds_max:.2f} s of {SECONDS_MAX:g} s ({found.slowest})\n"
        f"the largest: {found.bytes_max >> 20} MiB of {BYTES_MAX >> 20} MiB ({found.largest})"
    )
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
