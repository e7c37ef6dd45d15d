"""Our own list of pods: CSV with name, cpu, memory, at, seconds, and any devices as columns.

    name,at,seconds,owner,cpu,memory,hugepages-1Gi,nvidia.com/gpu
    web-1,0,3600,web,4,8Gi,,1

Empty seconds: until the end. Amounts are Kubernetes quantities; CPUs must be whole.
"""

from __future__ import annotations

from typing import Final

from numalign.core.errors import WireError
from numalign.core.values.quantity import Quantity
from numalign.wire.fleet.traces.csv_rows import CsvRow, lines, rows
from numalign.wire.fleet.traces.work import ListedPod, PodClasses

_COLUMNS: Final = ("name", "at", "cpu", "memory")
_OPTIONAL: Final = ("seconds", "owner")


def pods(source: str, text: str) -> list[ListedPod]:
    """The pods in the order of arrival."""
    _, head = next(lines(source, text), (1, []))
    others = [n for n in head if n.startswith("hugepages-") or "/" in n]
    unknown = [n for n in head if n not in {*_COLUMNS, *_OPTIONAL, *others}]
    if unknown:
        raise WireError(
            f"{source}: line 1: found the column {unknown[0]!r}, expected name, at, seconds, "
            "owner, cpu, memory, hugepages-SIZE or a device such as nvidia.com/gpu"
        )
    classes = PodClasses()
    wanted = [*_COLUMNS, *others]
    found = [_pod(row, others, classes) for row in rows(source, text, wanted, _OPTIONAL)]
    if not found:
        raise WireError(f"{source}: found no pod, expected one line for each")
    return sorted(found, key=lambda pod: pod.at)


def _pod(row: CsvRow, others: list[str], classes: PodClasses) -> ListedPod:
    amounts = {name: _amount(row, name) for name in ("cpu", "memory", *others)}
    if not amounts["cpu"] or not amounts["memory"]:
        raise WireError(
            f"{row.source}: line {row.line}: found no cpu or no memory, expected both: only "
            "Guaranteed pods are placed by the managers"
        )
    seconds = row.decimal("seconds") if row.text("seconds").strip() else None
    name = row.text("name")
    return ListedPod(
        name, classes.pod(amounts), row.decimal("at"), seconds, row.text("owner") or name
    )


def _amount(row: CsvRow, column: str) -> int:
    text = row.text(column).strip()
    if not text:
        return 0
    try:
        found = Quantity.parse(text)
    except (ValueError, WireError) as error:
        raise WireError(f"{row.source}: line {row.line}: column {column}: {error}") from error
    if found.value() * 1000 != found.milli() or found.value() < 0:
        raise WireError(
            f"{row.source}: line {row.line}: column {column}: found {text}, expected a whole amount"
        )
    return found.value()
