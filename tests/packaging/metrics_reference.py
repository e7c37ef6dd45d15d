"""Writes docs/reference/metrics.md from the metrics themselves.

    python -m tests.packaging.metrics_reference

The names, types, labels and help texts are those of the running code, so nothing can be missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.paths import DOCS
from tests.web.in_memory_agent import InMemoryAgent

from numalign.apps.agent.metrics import _health
from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.apps.scheduler.metrics import SchedulerMetrics
from numalign.wire.fleet import shapes

PAGE: Final = DOCS / "reference" / "metrics.md"
_SHAPES: Final = "a: {cpu: 1, memory: 1Gi}"
_HEAD: Final = """\
# Metrics

<!-- Written by `python -m tests.packaging.metrics_reference`; do not edit by hand. -->

Every program answers `GET /metrics` in Prometheus' text format. Dashboards for Grafana and alert
rules are in `packaging/monitoring/`; what to do when one fires is in the [runbook](../runbook.md).

| program | where |
| --- | --- |
| `numalign agent` | port 8421, its unix socket, other addresses with TLS ([api.md](api.md)) |
| `numalign export` | port 8422 (`--listen`) |
| `numalign scheduler` | port 8425 (`--probes-listen`) |
| `numalign redeploy`, `numalign nri` | port 8424 (`--listen`) |

Histograms have `_bucket`, `_sum` and `_count`. Names of resources come from outside, so the agent
keeps at most 1,000 sets of labels of one metric.
"""


class Told(NamedTuple):
    """One metric, as a reader of /metrics meets it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def _of_registry(registry: Any) -> Iterator[Told]:
    for collector in registry._collector_to_names:
        ending = "_total" if collector._type == "counter" else ""
        labels = tuple(collector._labelnames)
        yield Told(collector._name + ending, collector._type, labels, collector._documentation)


def _of_agent() -> Iterator[Told]:
    with tempfile.TemporaryDirectory() as logs:
        agent = InMemoryAgent(Path(logs))
        metrics = agent.metrics
        families = [
            *metrics._counters(),
            *metrics._histograms(),
            *metrics._gauges(agent.state),
            *_health({}, 0),
        ]
    for family in families:
        # The kubelet has counters whose names do not end in _total.
        kind = "counter" if family.type == "unknown" else family.type
        ending = "_total" if family.type == "counter" else ""
        yield Told(family.name + ending, kind, tuple(family._labelnames), family.documentation)


def programs() -> dict[str, list[Told]]:
    """The metrics of each program."""
    mix = shapes.reference_mix(_SHAPES.encode(), "shapes")
    exporter, scheduler = ExporterMetrics(), SchedulerMetrics()
    exporter.follow_capacity(mix)
    scheduler.follow_capacity(mix, lambda _: None)
    of_others = {
        "numalign nri": NriMetrics(),
        "numalign export": exporter,
        "numalign scheduler": scheduler,
        "numalign redeploy": RedeployMetrics(),
    }
    found = {"numalign agent": sorted(_of_agent())}
    return found | {name: sorted(_of_registry(m._registry)) for name, m in of_others.items()}


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for program, metrics in programs().items():
        parts.append(
            f"\n## {program}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        )
        for one in metrics:
            labels = ", ".join(f"`{label}`" for label in one.labels)
            parts.append(f"| `{one.name}` | {one.kind} | {labels} | {one.text} |\n")
    return "".join(parts)


def main() -> int:
    """Writes it."""
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
