"""The report as one page that needs nothing else: words on top, then tables, lines and maps.

No scripts, nothing loaded from elsewhere; light or dark as the reader's system is set; prints well.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from numalign.apps.simulator.report import charts
from numalign.apps.simulator.report.charts import Series
from numalign.apps.simulator.report.summary import Row, Spread, percentile, ranked, rows
from numalign.apps.simulator.report.words import words
from numalign.core.fleet.simulation.model import RunResult
from numalign.wire.fleet.scenario.form import ScenarioForm

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #d3d9e0;
  --page: #ffffff; --head: #f1f4f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --soft: #9fb0c2; --line: #384656;
  --page: #151b23; --head: #1f2833; } }
body { margin: 2rem auto; max-width: 82rem; padding: 0 1.5rem; color: var(--ink);
  background: var(--page); font: 15px/1.5 "Open Sans", "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0; } h2 { margin: 2rem 0 .5rem; font-size: 1.15rem; } h3 { font-size: 1rem; }
.soft { color: var(--soft); } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: right; }
th { background: var(--head); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(360px, 1fr)); gap: 1rem; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 8px; padding: .6rem; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
.legend svg { width: 26px; height: 8px; } .legend span { margin-right: 1.2rem; }
.grid { stroke: var(--line); stroke-width: .6; }
@media print { body { max-width: none; margin: 0; font-size: 12px; }
  table { font-size: 9.5px; } th, td { padding: .15rem .3rem; }
  figure, tr { break-inside: avoid; } .charts { grid-template-columns: repeat(2, 1fr); } }
"""

_COLUMNS: Final = (
    ("Unplaced", "unplaced", "%"),
    ("Refusals", "refusals", ""),
    ("Refused again", "refused_again", ""),
    ("Wait mean", "wait_mean", " s"),
    ("Wait p95", "wait_p95", " s"),
    ("Aligned", "aligned", "%"),
    ("Distance", "distance", ""),
    ("CPUs used", "cpu_used", "%"),
    ("F_numa", "f_numa_cpu", ""),
    ("of idle", "f_numa_cpu_share", "%"),
    ("16-core fragments", "fragment_rate", "%"),
    ("Stranded CPUs", "stranded_cpus", ""),
)
_OF_RESOURCES: Final = {"f_numa": "F_numa", "stranded": "Stranded"}
_CHARTS: Final = (
    ("CPUs in use", "cpu_used", True),
    ("Refusals so far", "refusals_so_far", False),
    ("Pods that wait for a host", "waiting", False),
    ("Idle CPUs that are useless to the mix (F_numa)", "f_numa_cpu_share", True),
    ("16-core fragment rate", "fragment_rate", True),
    ("Largest single-NUMA shape, CPUs", "largest_shape_cpus", False),
)


def render(form: ScenarioForm, results: Sequence[RunResult], notes: Sequence[str]) -> str:
    found = rows(results)
    parts = [
        f"<h1>{escape(form.name)}</h1>",
        f'<p class="soft">{escape(form.description)}</p>',
        "<h2>In words</h2>",
        "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in words(found)) + "</ul>",
        *_notes(notes),
        "<h2>Ranking</h2>",
        '<p class="soft">Means over the seeds, ± their standard deviation. For one seed all '
        "schedulers see the same work on the same hosts, so they differ less by chance than the "
        "seeds do. What is measured over time is the mean of the second half of each run; waits "
        "are those of pods that found a place. F_numa is in CPUs, and "
        '"of idle" is its share of what is idle; docs/fragmentation.md defines the measures.</p>',
        _table(ranked(found)),
    ]
    for variant in dict.fromkeys(result.variant for result in results):
        parts += _variant(variant, [r for r in results if r.variant == variant], found)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(form.name)} - simulated fleet</title>\n<style>{_STYLE}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    return ["<h2>Assumptions</h2>", "<ul>", *(f"<li>{escape(n)}</li>" for n in notes), "</ul>"]


def _table(found: Sequence[Row]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title, _, _ in _COLUMNS)
    lines = "\n".join(
        f"<tr><td>{escape(row.label)}</td>"
        + "".join(f"<td>{cell(row.values.get(name), unit)}</td>" for _, name, unit in _COLUMNS)
        + "</tr>"
        for row in found
    )
    return f'<div class="wide"><table>\n<tr><th>Scheduler</th>{head}</tr>\n{lines}\n</table></div>'


def cell(spread: Spread | None, unit: str) -> str:
    """A mean with its spread, in the unit that people read."""
    if spread is None:
        return "-"
    scale = 100 if unit == "%" else 1
    mean, sd = spread.mean * scale, spread.sd * scale
    digits = 0 if mean >= 1000 else 1
    text = f"{mean:,.{digits}f}" + (f" ± {sd:,.{digits}f}" if sd >= 0.05 else "")
    return text + (" %" if unit == "%" else unit)


def _variant(variant: str, results: Sequence[RunResult], found: Sequence[Row]) -> Iterable[str]:
    names = list(dict.fromkeys(result.scheduler for result in results))
    yield f"<h2>Over time{'' if variant == 'as-is' else ': ' + escape(variant)}</h2>"
    yield charts.legend(names)
    yield '<div class="charts">'
    for title, key, per_cent in _CHARTS:
        yield charts.lines(title, _series(results, names, key), per_cent=per_cent)
    keys = results[0].samples[0].values if results[0].samples else {}
    for key in keys:
        kind, _, what = key.partition(":")
        if kind == "capacity":
            title = f"Room for more of: {what}"
            yield charts.lines(title, _series(results, names, key))
        elif kind in _OF_RESOURCES:
            yield charts.lines(f"{_OF_RESOURCES[kind]}: {what}", _series(results, names, key))
    yield "</div>"
    yield "<h2>Distributions and what binds</h2>"
    yield '<div class="charts">'
    for name in names:
        own = [result for result in results if result.scheduler == name]
        waits = [wait for result in own for wait in result.waits]
        points = [(f"p{p}", percentile(waits, p)) for p in (50, 90, 95, 99, 100)]
        yield charts.bars(f"{name}: seconds to a place", points, " s")
        refusals = next(r.refusals for r in found if (r.variant, r.scheduler) == (variant, name))
        if refusals:
            yield charts.bars(
                f"{name}: refusals by reason", [(k, float(v)) for k, v in refusals.items()]
            )
        for shape, binding in own[0].binding.items():
            if binding:
                values = [(what, float(count)) for what, count in list(binding.items())[:6]]
                yield charts.bars(f"{name}: hosts that take no {shape}, for want of", values)
    yield "</div>"
    yield f"<h2>Hosts at the end of seed {results[0].seed}</h2>"
    yield '<div class="charts">'
    for name in names:
        [first, *_] = [result for result in results if result.scheduler == name]
        hosts = sorted(first.hosts, key=lambda host: host.name)
        yield charts.heat_map(f"{name}: CPUs in use", [(h.name, h.cpu_used) for h in hosts])
        yield charts.heat_map(
            f"{name}: idle CPUs useless to the mix", [(h.name, h.cpu_useless) for h in hosts]
        )
    yield "</div>"


def _series(results: Sequence[RunResult], names: Sequence[str], key: str) -> list[Series]:
    """The mean over seeds of one measure for each scheduler."""
    found = []
    for name in names:
        runs = [r.samples for r in results if r.scheduler == name and r.samples]
        count = min((len(samples) for samples in runs), default=0)
        points = [
            (
                statistics.fmean(samples[i].at for samples in runs),
                statistics.fmean(samples[i].values.get(key, 0.0) for samples in runs),
            )
            for i in range(count)
        ]
        found.append(Series(name, points))
    return found
