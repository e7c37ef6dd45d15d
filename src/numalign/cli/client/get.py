"""``numalign get``: pods, CPUs, memory and devices of an agent, and who sits where."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions, NamespaceOption
from numalign.cli.options import unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import PeerError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.agent_rows import Column

FORMATS: Final = ("table", "wide", "json", "yaml")
KINDS: Final = ("pods", "cpus", "memory", "devices")
SETTLE_SECONDS: Final = 0.2  # what follows from one event is shown together

app = new_app()


def _kinds() -> list[str]:
    return list(KINDS)


def _kind(value: str) -> str:
    known = {"pod": "pods", "po": "pods", "cpu": "cpus", "device": "devices"}.get(value, value)
    if known not in KINDS:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(KINDS)}")
    return known


@app.command(
    epilog=examples(
        "numalign get pods",
        "numalign get cpus -o wide",
        "numalign get pods --watch",
        "numalign get memory -o json | jq '.[].freeBytes'",
    )
)
@unfold
def get(
    *,
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            callback=_kind,
            autocompletion=_kinds,
            help=f"One of {', '.join(KINDS)}.",
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Only this pod.")
    ] = None,
    namespace: NamespaceOption = None,
    output: Annotated[str, output_option(*FORMATS)] = "table",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on and show what changes.")
    ] = False,
    place: AgentOptions,
) -> None:
    """Show pods, CPUs, memory or devices, and who sits where.

    Without a namespace the pods of all namespaces are shown. json and yaml hold a v1.PodList for
    pods and one record per row for the others.
    """
    out = Output.of(ctx)
    with place.connected() as agent:
        first = _found(agent, kind, name, namespace)
        if name is not None and not first.records and not watch:
            raise PeerError(f"found no {kind} of a pod {name}. See 'numalign get pods'.")
        seen = _show(out, output, first, None)
        for _ in _changes(agent) if watch else ():
            seen = _show(out, output, _found(agent, kind, name, namespace), seen)


def _changes(agent: AgentClient) -> Iterator[None]:
    """One item whenever something may have changed, until the agent ends its stream of events."""
    with agent.stream("/events") as parts:
        for part in parts:
            # The first part only says hello, but something may have happened before it; a comment
            # says that the agent lives.
            yield
            if b"event: " in part:
                time.sleep(SETTLE_SECONDS)
                yield
    raise PeerError(f"{agent.where}: the agent has ended the stream of events.", retry=True)


class _Found:
    """What there is now: the columns, one record per row, and the value for json and yaml."""

    def __init__(
        self, columns: Sequence[Column], records: Sequence[Mapping[str, Any]], value: object
    ) -> None:
        self.columns, self.records, self.value = columns, records, value


def _found(agent: AgentClient, kind: str, name: str | None, namespace: str | None) -> _Found:
    from numalign.cli.client import agent_rows as rows

    if kind == "pods":
        query = {"name": name, "namespace": namespace}
        pods = agent.get("/pods", **{key: text for key, text in query.items() if text is not None})
        return _Found(rows.PODS, rows.pod_records(pods["items"], time.time()), pods)
    node = agent.get("/node")
    columns, records = {
        "cpus": (rows.CPUS, rows.cpu_records),
        "memory": (rows.MEMORY, rows.memory_records),
        "devices": (rows.DEVICES, rows.device_records),
    }[kind]
    found = [r for r in records(node) if _is_about(r, name, namespace)]
    return _Found(columns, found, found)


def _is_about(record: Mapping[str, Any], name: str | None, namespace: str | None) -> bool:
    if name is None and namespace is None:
        return True
    if "holder" in record:
        who = [f"{h['namespace']}/{h['pod']}/" for h in [record["holder"]] if h]
    else:
        who = [c if isinstance(c, str) else c["container"] for c in record["containers"]]
    parts = [text.split("/") for text in who]
    return any(
        (namespace is None or part[0] == namespace) and (name is None or part[1] == name)
        for part in parts
    )


def _show(out: Output, output: str, found: _Found, seen: Any) -> Any:  # noqa: ANN401 - what was shown
    """Prints what is new since ``seen``; None: everything."""
    if output in {"json", "yaml"}:
        if found.value != seen:
            out.data(output, found.value, again=seen is not None)
        return found.value
    columns = [c for c in found.columns if output == "wide" or not c.wide]
    rows = [tuple(column.text(record) for column in columns) for record in found.records]
    # A pod's age alone is no news.
    ages = [number for number, column in enumerate(columns) if column.head == "AGE"]
    keys = {tuple(t for n, t in enumerate(row) if n not in ages): row for row in rows}
    fresh = rows if seen is None else [row for key, row in keys.items() if key not in seen]
    if seen is None and not fresh:
        out.debug("found none")
    _table(out, columns, fresh, head=seen is None)
    return keys.keys()


def _table(
    out: Output, shown: Sequence[Column], rows: Sequence[Sequence[str]], *, head: bool
) -> None:
    from numalign.apps.render.columns import columns
    from numalign.cli.main import one_line

    safe = [[one_line(text) for text in row] for row in rows]
    if not safe and not head:
        return
    lines = columns(
        [column.head for column in shown],
        safe,
        width=out.width,
        flexible=[n for n, column in enumerate(shown) if column.flexible],
        right=[n for n, column in enumerate(shown) if column.right],
        prose=[n for n, column in enumerate(shown) if column.flexible],
    )
    out.lines(lines if head else lines[1:])
