"""``python -m bench``: all measurements, the real Go code beside ours where Go is installed."""

from __future__ import annotations

import argparse
import sys

from bench import agent, core, discovery, explain, go_peer, nri, scheduler
from bench.cluster.__main__ import table as cluster_table


def main() -> int:
    """Runs what was asked for; 0 even where a target is missed, since machines are noisy."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the time per row")
    parser.add_argument("--no-go", action="store_true", help="do not run the Go code beside ours")
    options = parser.parse_args()
    seconds = 0.1 if options.quick else 1.0
    go = {} if options.no_go else go_peer.minima(seconds)
    missed = core.run(seconds=seconds, go=go)
    missed += scheduler.run(seconds=seconds)
    if not options.quick and not options.no_go:
        cluster_table()  # half an hour: each run has a control plane of its own
    discovery.run()
    missed += explain.run()
    agent.run(seconds=seconds)
    missed += nri.run()
    print(f"\n{missed} rows miss their target" if missed else "\nevery row meets its target")
    return 0


if __name__ == "__main__":
    sys.exit(main())
