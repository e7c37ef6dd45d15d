"""The files of a report: JSON and CSV for programs beside the page for people.

Nothing in them depends on when, where or how fast the runs were: the same seeds give the same
bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from numalign.apps.simulator.report import page
from numalign.apps.simulator.report.summary import percentile, rows
from numalign.apps.simulator.report.words import words
from numalign.core.fleet.simulation.model import RunResult
from numalign.wire.fleet.scenario.form import ScenarioForm

KIND: Final = "SimulationReport"
HTML: Final = "report.html"


def files(
    form: ScenarioForm, results: Sequence[RunResult], notes: Sequence[str]
) -> dict[str, bytes]:
    """All files of a report by name."""
    return {
        HTML: page.render(form, results, notes).encode(),
        "report.json": (json.dumps(document(form, results, notes), indent=1) + "\n").encode(),
        "summary.csv": summary_csv(results).encode(),
        "samples.csv": samples_csv(results).encode(),
    }


def document(
    form: ScenarioForm, results: Sequence[RunResult], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "apiVersion": "numalign.io/v1",
        "kind": KIND,
        "name": form.name,
        "description": form.description,
        "notes": list(notes),
        "words": words(rows(results)),
        "summary": [
            {
                "variant": row.variant,
                "scheduler": row.scheduler,
                "seeds": row.seeds,
                "pods": row.jobs,
                "refusalsByReason": row.refusals,
                "values": {
                    name: {"mean": _rounded(s.mean), "sd": _rounded(s.sd)}
                    for name, s in row.values.items()
                },
            }
            for row in rows(results)
        ],
        "runs": [_run(result) for result in results],
    }


def _run(result: RunResult) -> dict[str, Any]:
    return {
        "variant": result.variant,
        "scheduler": result.scheduler,
        "seed": result.seed,
        "isComplete": result.is_complete,
        "endedAtSeconds": _rounded(result.ended_at),
        "pods": result.jobs,
        "placed": result.placed,
        "running": result.running,
        "finished": result.finished,
        "waiting": result.waiting,
        "givenUp": result.given_up,
        "refusals": dict(sorted(result.refusals.items())),
        "refusedPods": result.refused_jobs,
        "refusedMoreThanOnce": result.refused_again,
        "waitSeconds": {f"p{p}": _rounded(percentile(result.waits, p)) for p in (50, 95, 99, 100)},
        "binding": result.binding,
        "samples": [
            {"at": _rounded(s.at), **{n: _rounded(v) for n, v in s.values.items()}}
            for s in result.samples
        ],
    }


def _rounded(value: float) -> float:
    return round(value, 6)


def summary_csv(results: Sequence[RunResult]) -> str:
    found = rows(results)
    names = list(found[0].values) if found else []
    head = ["variant", "scheduler", "seeds", "pods"]
    head += [part for name in names for part in (name, f"{name}_sd")]
    lines: list[Sequence[object]] = [head]
    for row in found:
        spreads = [row.values[name] for name in names]
        cells = [text for s in spreads for text in (f"{s.mean:.6g}", f"{s.sd:.6g}")]
        lines.append([row.variant, row.scheduler, row.seeds, row.jobs, *cells])
    return _csv(lines)


def samples_csv(results: Sequence[RunResult]) -> str:
    names: Mapping[str, None] = {
        name: None for result in results for s in result.samples for name in s.values
    }
    lines: list[Sequence[object]] = [["variant", "scheduler", "seed", "at", *names]]
    for result in results:
        for sample in result.samples:
            cells = [f"{sample.values.get(name, 0.0):.6g}" for name in names]
            at = f"{sample.at:.6g}"
            lines.append([result.variant, result.scheduler, result.seed, at, *cells])
    return _csv(lines)


def _csv(lines: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()
