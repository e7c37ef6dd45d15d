"""``python -m bench.sim``: the report that compares schedulers on two traces and a preset.

The published traces are no part of the project. Where they are not at hand (--traces), a generated
one takes their place.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from numalign.cli.main import main as numalign

CHECKOUT = Path(__file__).parents[1]
SCENARIOS = CHECKOUT / "examples" / "scenarios"
TRACES = CHECKOUT.parent / "shared" / "traces"
NEEDED = {
    "telco": (),
    "dlrm": ("disaggregated_DLRM_trace.csv",),
    "openb": ("openb_node_list_all_node.csv", "openb_pod_list_default.csv"),
}
STAND_IN = "gpu-training"


def main() -> int:
    """Writes one report for each scenario; 0 if all runs came to an end."""
    parser = argparse.ArgumentParser(prog="python -m bench.sim", description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="where the CSV files are")
    parser.add_argument("-o", "--output", type=Path, default=CHECKOUT / "build" / "sim")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = [name for name, files in NEEDED.items() if _has(options.traces, files)]
    if len(names) < len(NEEDED):
        missing = ", ".join(name for name in NEEDED if name not in names)
        print(f"no traces for {missing} in {options.traces}: {STAND_IN} stands in for them")
        names.append(STAND_IN)
    worst = 0
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            print(f"\n{name}", flush=True)
            path = Path(place) / f"{name}.yaml"
            path.write_text((SCENARIOS / f"{name}.yaml").read_text())
            for file in NEEDED.get(name, ()):
                (Path(place) / file).symlink_to((options.traces / file).resolve())
            output = options.output / name
            command = ["simulate", str(path), "-o", str(output), "--jobs", str(options.jobs)]
            worst = max(worst, numalign(command))
    return worst


def _has(traces: Path, files: tuple[str, ...]) -> bool:
    return all((traces / file).is_file() for file in files)


if __name__ == "__main__":
    sys.exit(main())
