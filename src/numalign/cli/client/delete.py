"""``numalign delete``: end pods."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import CHANGE_FORMATS, AgentOptions
from numalign.cli.client.choose.options import ChoiceOptions
from numalign.cli.options import optional, unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.choose.targets import Target
    from numalign.cli.client.pod_changes import Change

DEFAULT_NAMESPACE: Final = "default"

app = new_app()


@app.command(
    epilog=examples(
        "numalign delete pod web",
        "numalign delete pod/web deploy/api -n shop",
        "numalign delete pods -l app=web",
        "numalign delete -f examples/pods/ --no-wait",
    )
)
@unfold
def delete(
    *,
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TYPE] [NAME]...",
            show_default=False,
            help="Which: pod NAME, pod/NAME, deploy/NAME for all pods of a workload, or NAME.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        optional(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="The pods and workloads of these manifests, or - for stdin. Repeat for more.",
        ),
    ] = None,
    choice: ChoiceOptions,
    every: Annotated[
        bool, typer.Option("--all", help="With a type alone: all of them in the namespace.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the pods are gone.")
    ] = False,
    output: Annotated[str, output_option(*CHANGE_FORMATS)] = "lines",
    place: AgentOptions,
) -> None:
    """End pods and give back what they hold.

    Their containers get their grace period; the command waits until they are gone. Without -n the
    namespace default is meant. A pod that is not there makes the exit code 1. A pod of the agent's
    directory of manifests comes back when its file changes: remove the file instead.
    """
    from numalign.cli.client.pod_changes import show

    wanted = _wanted(words or [], files or [], choice, every=every)
    with place.connected() as agent:
        show(Output.of(ctx), output, _deleted(agent, wanted, wait=not no_wait))


def _wanted(
    words: list[str], files: list[str], choice: ChoiceOptions, *, every: bool
) -> list[tuple[ChoiceOptions, Target]]:
    """What to delete: each target with the pods among which it is looked for."""
    from numalign.cli.client.choose.targets import targets_of

    if bool(words) == bool(files):
        raise ConfigError("found no pod to delete, expected names or -f FILE, and not both.")
    if files:
        return _of_files(files, choice)
    found = targets_of(words)
    if found[0].name is None and not choice.selector and not every:
        raise ConfigError(
            f"found no name after {words[0]!r}, expected which one to delete, or -l or --all."
        )
    if every and found[0].name is not None:
        raise ConfigError("found names and --all, expected one of them.")
    if choice.all_namespaces and found[0].name is not None:
        raise ConfigError("found names and -A, expected the namespace of the names with -n.")
    return [(choice, target) for target in found]


def _of_files(files: list[str], choice: ChoiceOptions) -> list[tuple[ChoiceOptions, Target]]:
    from numalign.cli import manifests
    from numalign.cli.client.choose.targets import POD, Target

    workloads = manifests.read(files, namespace=choice.namespace, selector=choice.selector)
    if any(not w.pods[0].metadata.name for w in workloads if w.is_pod):
        raise ConfigError("found a pod without a name, expected one that tells which pod it is.")
    return [
        (ChoiceOptions(w.namespace), Target(POD if w.is_pod else w.kind, w.name)) for w in workloads
    ]


def _deleted(
    agent: AgentClient, wanted: Sequence[tuple[ChoiceOptions, Target]], *, wait: bool
) -> Iterator[Change]:
    from numalign.cli.client.pod_changes import Change, end, wait_until_gone

    for choice, target in wanted:
        found = choice.pods(agent, [target], default=DEFAULT_NAMESPACE)
        if not found:
            namespace = choice.namespace or DEFAULT_NAMESPACE
            yield Change(namespace, target.name or "", "not found", kind=target.kind.lower())
        for pod in found:
            end(agent, pod["metadata"]["uid"])  # all of them first: they end side by side
        for pod in found:
            if wait:
                wait_until_gone(agent, pod["metadata"]["uid"])
            yield _change(pod)


def _change(pod: dict[str, Any]) -> Change:
    from numalign.cli.client.choose.targets import owner_text
    from numalign.cli.client.pod_changes import Change

    found = pod["metadata"]
    names = found["namespace"], found["name"]
    return Change(*names, "deleted", uid=found["uid"], owner=owner_text(pod))
