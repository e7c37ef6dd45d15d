"""``numalign get``: pods, CPUs, memory, devices and manifests of an agent."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions
from numalign.cli.client.choose.options import ChoiceOptions
from numalign.cli.options import unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.choose.targets import Target
    from numalign.cli.client.formats.tables import Column, Found

FORMATS: Final = ("table", "wide", "name", "json", "yaml", "jsonpath=", "custom-columns=")
ROWS: Final = {
    "cpu": "cpus",
    "cpus": "cpus",
    "memory": "memory",
    "device": "devices",
    "devices": "devices",
    "manifest": "manifests",
    "manifests": "manifests",
}
SETTLE_SECONDS: Final = 0.2  # what follows from one event is shown together

app = new_app()


def _kinds() -> list[str]:
    return ["pods", *dict.fromkeys(ROWS.values()), "deploy", "sts", "ds", "rs", "job", "cj"]


@app.command(
    epilog=examples(
        "numalign get pod/web deploy/api -o wide",
        "numalign get pods -n shop -l app=web --watch",
        "numalign get pods -o jsonpath='{.items[*].metadata.name}'",
        "numalign get memory -o json | jq '.[].freeBytes'",
    )
)
@unfold
def get(
    *,
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TYPE [NAME]...",
            autocompletion=_kinds,
            help="pods, cpus, memory or devices, with the names of pods; or TYPE/NAME. A workload, "
            "such as deploy/web, stands for its pods. Or manifests: the files that the agent "
            "follows, and what is wrong with them.",
        ),
    ],
    choice: ChoiceOptions,
    output: Annotated[str, output_option(*FORMATS)] = "table",
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Leave the head of a table out.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on and show what changes.")
    ] = False,
    place: AgentOptions,
) -> None:
    """Show pods, CPUs, memory, devices or manifests: who sits where.

    Without a namespace the pods of all namespaces are shown. json and yaml hold a v1.PodList for
    pods, a v1.Pod for the one that is named, and one record per row for the others. Of JSONPath
    there are members, indexes, slices, [*] and {range}; no filters, unions or recursive descent.
    Into a pipe, tables are never wrapped.
    """
    from numalign.cli.client.formats.tables import Shown

    kind, targets = _asked(words)
    shown = Shown(Output.of(ctx), output, has_head=not no_headers)
    with place.connected() as agent:
        lost = shown.show(_found(agent, kind, targets, choice))
        if lost and not watch:
            raise PeerError(f"found no {', '.join(lost)}. See 'numalign get pods -A'.")
        for _ in _changes(agent) if watch else ():
            shown.show(_found(agent, kind, targets, choice))


def _asked(words: Sequence[str]) -> tuple[str, list[Target]]:
    """What kind of rows, and of which pods."""
    from numalign.cli.client.choose.targets import KINDS, TYPES, Target, targets_of

    first, _, name = words[0].partition("/")
    if first.lower() in ROWS:
        names = [name, *words[1:]] if name else words[1:]
        return ROWS[first.lower()], [Target(name=one) for one in names]
    if first.lower() not in KINDS:
        raise ConfigError(
            f"found {first!r}, expected one of {', '.join(dict.fromkeys(ROWS.values()))}, {TYPES}."
        )
    return "pods", targets_of(words)


def _changes(agent: AgentClient) -> Iterator[None]:
    """One item whenever something may have changed, until the agent ends its stream of events."""
    with agent.stream("/events") as parts:
        for part in parts:
            # The first part only says hello, but something may have happened before it; 'still'
            # says that the agent lives.
            yield
            if b"event: " in part and not part.startswith(b"event: still"):
                time.sleep(SETTLE_SECONDS)
                yield
    raise PeerError(f"{agent.where}: the agent has ended the stream of events.", retry=True)


def _found(
    agent: AgentClient, kind: str, targets: Sequence[Target], choice: ChoiceOptions
) -> Found:
    from numalign.cli.client import agent_rows as rows
    from numalign.cli.client.choose.targets import missing
    from numalign.cli.client.formats.tables import Found

    if kind == "manifests":
        return _manifests(agent, targets, choice)
    pods = choice.pods(agent, targets) if kind == "pods" or targets or choice.is_narrow else None
    lost = [target.title for target in missing(pods or [], targets)]
    if kind == "pods":
        return _pods(rows.pod_records(pods or [], time.time()), pods or [], targets, lost)
    node = agent.get("/node")
    tables: dict[str, tuple[Sequence[Column], Any]] = {
        "cpus": (rows.CPUS, rows.cpu_records),
        "memory": (rows.MEMORY, rows.memory_records),
        "devices": (rows.DEVICES, rows.device_records),
    }
    columns, records = tables[kind]
    keys = None if pods is None else {_key(pod) for pod in pods}
    found = [r for r in records(node) if keys is None or _holders(r) & keys]
    return Found(columns, found, found, {"items": found}, [], tuple(lost))


def _manifests(agent: AgentClient, targets: Sequence[Target], choice: ChoiceOptions) -> Found:
    """The files of the directory of manifests, all of them or those that are named."""
    from numalign.cli.client.formats.manifest_rows import MANIFESTS, manifest_records
    from numalign.cli.client.formats.tables import Found

    if choice.is_narrow:
        raise ConfigError("manifests: found a namespace or selector, expected names of files only.")
    answer = agent.get("/manifests")
    if not answer["directory"]:
        raise PeerError("The agent follows no directory of manifests: see numalign agent --pods.")
    names = {target.name or "" for target in targets}
    found = [r for r in manifest_records(answer) if not names or r["file"] in names]
    lost = tuple(sorted(names - {record["file"] for record in found}))
    return Found(MANIFESTS, found, found, {"items": found}, [], lost)


def _pods(
    records: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    targets: Sequence[Target],
    lost: list[str],
) -> Found:
    from numalign.cli.client.agent_rows import PODS
    from numalign.cli.client.formats.tables import Found

    value: dict[str, Any] = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods}
    # As kubectl does: who names one object gets it, and not a list with it.
    is_one = len(targets) == 1 and len(pods) == 1 and targets[0].is_one_pod
    if is_one:
        value = pods[0]
    names = [f"pod/{pod['metadata']['name']}" for pod in pods]
    return Found(PODS, records, value, value, names, tuple(lost))


def _key(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _holders(record: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The pods that a row is about."""
    if "holder" in record:
        return {(h["namespace"], h["pod"]) for h in [record["holder"]] if h}
    who = [c if isinstance(c, str) else c["container"] for c in record["containers"]]
    return {(namespace, pod) for namespace, pod, _ in (text.split("/") for text in who)}
