"""``python -m tests.cli.workload_examples``: writes what admit and explain say to the examples."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

from tests.paths import CHECKOUT, GOLDEN

from numalign.cli.main import main

EXAMPLES = CHECKOUT / "examples" / "workloads"
PLACE = GOLDEN / "workloads"
MACHINES = ("edge-nosmt", "xeon-2s", "xeon-2s-cxl", "epyc-2s-nps4")
GPUS = {
    "edge-nosmt": "nvidia.com/gpu=2@0",
    "xeon-2s": "nvidia.com/gpu=2@0,2@1",
    "xeon-2s-cxl": "nvidia.com/gpu=4@0",
    "epyc-2s-nps4": "nvidia.com/gpu=2@1,2@5",
}


def workloads() -> list[Path]:
    return sorted(path for path in EXAMPLES.glob("*.yaml") if path.name != "kubelet.yaml")


def questions(machine: str) -> Iterator[list[str]]:
    """Every question to one machine."""
    for path in workloads():
        file = str(path.relative_to(CHECKOUT))
        where = ["-m", machine, "--kubelet-config", "examples/workloads/kubelet.yaml"]
        for command in ("admit", "explain"):
            yield [command, "-f", file, *where]
            if path.name == "gpu-training.yaml":
                yield [command, "-f", file, *where, "--device", GPUS[machine]]


def answer(arguments: list[str]) -> str:
    """The question as one would type it, and all that comes back."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    typed = f"$ numalign {' '.join(arguments)}"
    return f"{typed}\n{err.getvalue()}{out.getvalue()}[exit {code}]\n"


def text_of(machine: str) -> str:
    return "\n".join(map(answer, questions(machine)))


if __name__ == "__main__":
    os.chdir(CHECKOUT)
    os.environ["COLUMNS"] = "100"
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in MACHINES:
        (PLACE / f"{name}.txt").write_text(text_of(name))
