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


def _wanted(
    names: list[str], files: list[str], namespace: str | None
) -> list[tuple[str | None, str]]:
    if bool(names) == bool(files):
        raise ConfigError("found no pod to delete, expected names or -f FILE, and not both.")
    if names:
        return [(namespace, name) for name in names]
    from numalign.cli import manifests

    records = manifests.read(files)
    if any(not record.metadata.name for record in records):
        raise ConfigError("found a pod without a name, expected one that tells which pod it is.")
    return [(namespace or r.metadata.namespace or "default", r.metadata.name) for r in records]


def _deleted(
    agent: AgentClient, wanted: list[tuple[str | None, str]], *, wait: bool
) -> Iterator[Change]:
    from numalign.cli.client.pod_changes import Change, ended

    for namespace, name in wanted:
        query = {"name": name, "namespace": namespace or "default"}
        found = agent.get("/pods", **query)["items"]
        if not found:
            yield Change(query["namespace"], name, "not found")
        for pod in found:
            uid = pod["metadata"]["uid"]
            ended(agent, uid, wait=wait)
            yield Change(query["namespace"], name, "deleted", uid=uid)
