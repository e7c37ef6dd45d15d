"""``numalign describe``: all about one pod, with the decision and why it was made."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

FORMATS: Final = ("text", "json", "yaml")
HINTS_SHORT_MAX: Final = 8  # of one provider, unless details are asked for
NODES: Final = frozenset({"node", "nodes", "no", "host"})
Fields = Iterator[tuple[int, str, str]]  # indent, name, value

app = new_app()


@app.command(
    epilog=examples(
        "numalign describe pod web",
        "numalign describe deploy/web -n shop",
        "numalign describe node",
        "numalign describe pod web -o json | jq .decisions",
    )
)
@unfold
def describe(
    *,
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TYPE [NAME]...",
            help="pod NAME, pod/NAME, deploy/NAME for the pods of a workload, pods for all, or "
            "node for the host.",
        ),
    ],
    choice: ChoiceOptions,
    output: Annotated[str, output_option(*FORMATS)] = "text",
    place: AgentOptions,
) -> None:
    """Show all about a pod or the host: status, who sits where and why.

    The decision shows what each provider answered: sets of NUMA nodes with + if preferred; with -v
    all of them, the hint table and the map of the host.
    """
    out = Output.of(ctx)
    is_node = words[0].partition("/")[0].lower() in NODES
    targets = [] if is_node else _targets(words)
    with place.connected() as agent:
        if is_node:
            _describe_node(out, output, agent, [*words[0].split("/")[1:], *words[1:]])
            return
        pods = _chosen(agent, targets, choice)
        uids = [pod["metadata"]["uid"] for pod in pods]
        known = [agent.get("/decisions", uid=uid)["items"] for uid in uids]
    found = [{"pod": pod, "decisions": d} for pod, d in zip(pods, known, strict=True)]
    if output != "text":
        out.data(output, found[0] if _is_one(targets) else found)
        return
    for number, (pod, decisions) in enumerate(zip(pods, known, strict=True)):
        out.text("\n\n" if number else "")
        is_long = out.settings.verbosity > 0
        why = list(_explained(pod, decisions, out.width, details=is_long))
        out.lines([*why, *_lines(pod, decisions, details=is_long)])


def _describe_node(out: Output, output: str, agent: AgentClient, names: list[str]) -> None:
    from numalign.cli.client.describe_node import fields_of

    node, pods = agent.get("/node"), agent.get("/pods")["items"]
    if names not in ([], [node["machine"]["name"]]):
        found, known = " ".join(names), node["machine"]["name"]
        raise PeerError(f"found no node {found}: this agent's host is {known}.")
    if output != "text":
        out.data(output, node)
    else:
        out.lines(as_lines(fields_of(node, pods)))


def _targets(words: Sequence[str]) -> list[Target]:
    from numalign.cli.client.choose.targets import KINDS, TYPES, targets_of

    if words[0].partition("/")[0].lower() not in KINDS:
        raise ConfigError(f"found {words[0]!r}, expected one of {TYPES} or node, such as pod/web.")
    return targets_of(words)


def _chosen(
    agent: AgentClient, targets: Sequence[Target], choice: ChoiceOptions
) -> list[dict[str, Any]]:
    from numalign.cli.client.choose.options import the_only
    from numalign.cli.client.choose.targets import missing

    found = choice.pods(agent, targets)
    if _is_one(targets):
        return [the_only(found, targets[0])]
    lost = [target.title for target in missing(found, targets)]
    if lost or not found:
        what = ", ".join(lost) or "such pod"
        raise PeerError(f"found no {what}. See 'numalign get pods -A -o wide'.")
    return found


def _is_one(targets: Sequence[Target]) -> bool:
    return len(targets) == 1 and targets[0].is_one_pod


def _lines(pod: Mapping[str, Any], decisions: list[Mapping[str, Any]], *, details: bool) -> Any:  # noqa: ANN401 - lines
    return as_lines([*_pod(pod), *_containers(pod), *_decisions(decisions, details=details)])


def as_lines(fields: Iterable[tuple[int, str, str]]) -> Any:  # noqa: ANN401
    """Fields one below the other, their values in a column."""
    from numalign.apps.render.text import Span, Tone
    from numalign.cli.main import one_line

    for indent, name, value in fields:
        label = f"{'  ' * indent}{name}:" if name else "  " * indent
        text = one_line(value)
        if not text:
            yield (Span(label, Tone.TITLE),)
        elif name:
            yield (Span(f"{label:<16}", Tone.TITLE), Span(f" {text}"))
        else:
            yield (Span(f"{label}{text}"),)


def _explained(
    pod: Mapping[str, Any], decisions: list[Mapping[str, Any]], width: int, *, details: bool
) -> Any:  # noqa: ANN401 - lines
    """Why the newest decision was a refusal: first of all, before the kubelet's words."""
    from numalign.apps.render.explanation import facts, render
    from numalign.apps.render.text import Span, Tone, line, wrap

    found = decisions[0].get("explanation") if decisions else None
    if found and details:
        yield from render(found, width=width)
    elif found:
        yield from wrap((Span(found["sentence"], Tone.WARNING),), width, prose=True)
        yield from facts(found, width)
    elif pod["numalign"].get("why"):
        yield from wrap((Span(pod["numalign"]["why"], Tone.WARNING),), width, prose=True)
    else:
        return
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    yield line(f"What would let it in: numalign explain pod {name} -n {namespace}", Tone.DIM)
    yield line("")


def _pod(pod: Mapping[str, Any]) -> Fields:
    from numalign.cli.client.agent_rows import age_text, pod_status
    from numalign.cli.client.choose.targets import owner_text

    metadata, status, placed = pod["metadata"], pod["status"], pod["numalign"]
    created = metadata["creationTimestamp"]
    yield 0, "Name", metadata["name"]
    yield 0, "Namespace", metadata["namespace"]
    yield 0, "UID", metadata["uid"]
    if owner := owner_text(pod):
        yield 0, "Controlled By", owner
    yield 0, "Source", placed["source"]
    yield 0, "Created", f"{created} ({age_text(created, time.time())} ago)"
    for key in ("labels", "annotations"):
        if metadata.get(key):
            texts = (f"{name}={value}" for name, value in metadata[key].items())
            yield 0, key.title(), ", ".join(texts)
    yield 0, "Status", pod_status(pod)
    yield 0, "Phase", status["phase"]
    if status.get("message"):
        yield 0, "Message", status["message"]
    yield 0, "QoS class", status["qosClass"]
    if placed["awaitedDevices"]:
        yield 0, "Awaits", ", ".join(placed["awaitedDevices"])
    for note in placed["notes"]:
        yield 0, "Note", note
    if "podCpus" in placed:
        yield 0, "Pod CPUs", placed["podCpus"]
    if "podMemory" in placed:
        yield 0, "Pod memory", _blocks(placed["podMemory"])


def _containers(pod: Mapping[str, Any]) -> Fields:
    status = pod["status"]
    for title, key, given in (
        ("Init containers", "initContainerStatuses", "initContainers"),
        ("Containers", "containerStatuses", "containers"),
    ):
        records = pod["spec"].get(given) or []
        states = {state["name"]: state for state in status.get(key, [])}
        if records:
            yield 0, title, ""
        for record in records:
            yield from _container(record, states.get(record["name"]), pod["numalign"])


def _container(
    record: Mapping[str, Any], state: Mapping[str, Any] | None, placed: Mapping[str, Any]
) -> Fields:
    yield 1, record["name"], ""
    command = [*(record.get("command") or []), *(record.get("args") or [])]
    if command:
        yield 2, "Command", " ".join(command)
    if state is not None:
        yield 2, "State", _state(state["state"])
        if "lastState" in state:
            yield 2, "Before", _state(state["lastState"])
        if "running" in state["state"] and not state["ready"]:
            yield 2, "Ready", "no: its probes or its postStart hook have not passed"
        yield 2, "Restarts", str(state["restartCount"])
    for key, amounts in (record.get("resources") or {}).items():
        if amounts:
            yield 2, key.title(), ", ".join(f"{name} {text}" for name, text in amounts.items())
    own = placed["containers"].get(record["name"])
    if own is None:
        return
    if own["pid"]:
        yield 2, "PID", str(own["pid"])
    if own["cpus"]:
        use = "exclusive" if own["exclusive"] else "shared pool"
        yield 2, "CPUs", f"{own['cpus']} ({use}) on {_on(own['cpuNodes'])}"
    if own["memory"]:
        yield 2, "Memory", _blocks(own["memory"])
    for resource, ids in own["devices"].items():
        places = zip(ids, own["deviceNodes"][resource], strict=True)
        texts = (f"{one} on {_on(nodes)}" if nodes else one for one, nodes in places)
        yield 2, "Devices", f"{resource}: {', '.join(texts)}"
    if own["aligned"] is not None:
        yield 2, "Aligned", "yes" if own["aligned"] else "no: not all of it is on one NUMA node"
    if own["distance"] is not None:
        yield 2, "Distance", f"{own['distance']:.1f} to memory and devices (10 = local, estimated)"
    if own["hint"] is not None:
        yield 2, "Hint", _hint(own["hint"])


def _hint(hint: Mapping[str, Any]) -> str:
    where = "any node" if hint["nodes"] is None else _on(hint["nodes"])
    return f"{where}, {'preferred' if hint['preferred'] else 'not preferred'}"


def _on(nodes: list[int]) -> str:
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes))}"


def _blocks(blocks: list[Mapping[str, Any]]) -> str:
    from numalign.core.values.sizes import human

    return ", ".join(f"{human(b['sizeBytes'])} of {b['type']} on {_on(b['nodes'])}" for b in blocks)


def _state(state: Mapping[str, Any]) -> str:
    for name, values in state.items():
        facts = {k: v for k, v in values.items() if k != "containerID"}
        shown = ", ".join(f"{key} {value}" for key, value in facts.items())
        return f"{name} ({shown})" if shown else str(name)
    return "unknown"


def _decisions(decisions: list[Mapping[str, Any]], *, details: bool) -> Fields:
    from numalign.core.views.trace import HINTS_LISTED_MAX, lines_of

    if not decisions:
        yield 0, "Decision", "not among the last ones that the agent remembers"
    for decision in decisions[:1]:
        words = [decision["outcome"].removeprefix("pod_")]
        if decision.get("reason"):
            words.append(decision["reason"])
        yield 0, "Decision", ", ".join(words)
        if not decision["trace"] and decision.get("reason"):
            yield 1, "", "how each provider answered is not kept over a restart of the agent"
        hints_max = HINTS_LISTED_MAX if details else HINTS_SHORT_MAX
        for line in lines_of(decision["trace"], hints_max=hints_max):
            yield 1, "", line
