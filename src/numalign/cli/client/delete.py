"""``numalign delete``: end pods."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions, NamespaceOption
from numalign.cli.options import optional, unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.pod_changes import Change
    from numalign.cli.client.targets import Target

FORMATS: Final = ("lines", "json", "yaml")

app = new_app()


@app.command(
    epilog=examples(
        "numalign delete web",
        "numalign delete web db -n shop",
        "numalign delete -f examples/pods/ --no-wait",
    )
)
@unfold
def delete(
    *,
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", show_default=False, help="The pods.")
    ] = None,
    files: Annotated[
        list[str] | None,
        optional(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="The pods of these manifests, or - for stdin. Repeat for more.",
        ),
    ] = None,
    namespace: NamespaceOption = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the pods are gone.")
    ] = False,
    output: Annotated[str, output_option(*FORMATS)] = "lines",
    place: AgentOptions,
) -> None:
    """End pods and give back what they hold.

    Their containers get their grace period; the command waits until they are gone. Without -n the
    namespace default is meant. A pod that is not there makes the exit code 1. A pod of the agent's
    directory of manifests comes back when its file changes: remove the file instead.
    """
    from numalign.cli.client.pod_changes import show

    wanted = _wanted(names or [], files or [], namespace)
    with place.connected() as agent:
        show(Output.of(ctx), output, _deleted(agent, wanted, wait=not no_wait))


def _wanted(names: list[str], files: list[str], namespace: str | None) -> list[tuple[str, Target]]:
    from numalign.cli.client.targets import Target, targets_of

    if bool(names) == bool(files):
        raise ConfigError("found no pod to delete, expected names or -f FILE, and not both.")
    if names:
        found = targets_of(names)
        if found[0].name is None:
            raise ConfigError(f"found no name after {names[0]!r}, expected which one to delete.")
        return [(namespace or "default", target) for target in found]
    from numalign.cli import manifests

    workloads = manifests.read(files, namespace=namespace)
    if any(not w.pods[0].metadata.name for w in workloads if w.is_pod):
        raise ConfigError("found a pod without a name, expected one that tells which pod it is.")
    return [(w.namespace, Target("Pod" if w.is_pod else w.kind, w.name)) for w in workloads]


def _deleted(
    agent: AgentClient, wanted: list[tuple[str, Target]], *, wait: bool
) -> Iterator[Change]:
    from numalign.cli.client.pod_changes import Change, end, wait_until_gone
    from numalign.cli.client.targets import chosen, owner_text, pods_of

    for namespace, target in wanted:
        found = chosen(pods_of(agent, namespace), [target])
        if not found:
            yield Change(namespace, str(target.name), "not found", kind=target.kind.lower())
        for pod in found:
            end(agent, pod["metadata"]["uid"])  # all of them first: they end side by side
        for pod in found:
            metadata = pod["metadata"]
            owner, uid = owner_text(pod), metadata["uid"]
            if wait:
                wait_until_gone(agent, uid)
            yield Change(namespace, metadata["name"], "deleted", uid=uid, owner=owner)
