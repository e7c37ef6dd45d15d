"""``numalign logs``: what a container has written."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions
from numalign.cli.client.choose.options import ChoiceOptions
from numalign.cli.options import optional, unfold
from numalign.core.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.choose.targets import Target

app = new_app()


@app.command(
    epilog=examples(
        "numalign logs web",
        "numalign logs web -c sidecar --tail 20",
        "numalign logs deploy/web -f",
    )
)
@unfold
def logs(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="POD [CONTAINER]",
            show_default=False,
            help="NAME or pod/NAME; deploy/NAME for one pod of a workload.",
        ),
    ] = None,
    container: Annotated[
        str | None,
        optional(
            "--container",
            "-c",
            metavar="NAME",
            help="The container; needed if the pod has several.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the container has ended.")
    ] = False,
    tail: Annotated[
        int | None,
        optional(
            "--tail", metavar="LINES", min=0, max=1_000_000, help="Only so many lines from the end."
        ),
    ] = None,
    choice: ChoiceOptions,
    place: AgentOptions,
) -> None:
    """Print what a container has written to its stdout and stderr.

    With -l, the logs of all pods that have the labels, one after the other.
    """
    target, named = _asked(words or [], is_selected=choice.selector is not None)
    query: dict[str, str | int] = {"follow": "true" if follow else "false"}
    if (container or named) is not None:
        query["container"] = str(container or named)
    if tail is not None:
        query["tail"] = tail
    with place.connected() as agent:
        for pod in _pods(agent, choice, target, is_followed=follow):
            with agent.stream(f"/pods/{pod['metadata']['uid']}/log", **query) as parts:
                for part in parts:
                    sys.stdout.buffer.write(part)
                    sys.stdout.buffer.flush()


def _asked(words: list[str], *, is_selected: bool) -> tuple[Target | None, str | None]:
    """The pod that is meant, and its container if that is named as well."""
    from numalign.cli.client.choose.targets import KINDS, targets_of

    if is_selected != (not words):
        raise ConfigError("found no pod or too much, expected a name such as pod/web, or -l.")
    if is_selected:
        return None, None
    if words[0].lower() in KINDS and len(words) > 1:
        words = [f"{words[0]}/{words[1]}", *words[2:]]
    [target] = targets_of(words[:1])
    if target.name is None or len(words) > 2:
        raise ConfigError(f"found {' '.join(words)!r}, expected POD or POD CONTAINER.")
    return target, words[1] if len(words) > 1 else None


def _pods(
    agent: AgentClient, choice: ChoiceOptions, target: Target | None, *, is_followed: bool
) -> list[dict[str, Any]]:
    from numalign.cli.client.choose.options import the_only

    found = choice.pods(agent, [target] if target else [])
    if target is not None and target.is_one_pod:
        return [the_only(found, target)]
    what = f"of {target.title}" if target else f"with the labels {choice.selector}"
    if not found:
        raise PeerError(f"found no pod {what}. See 'numalign get pods -o wide'.")
    if target is not None and len(found) > 1:
        first = found[0]["metadata"]["name"]
        print(f"note: found {len(found)} pods {what}, showing pod/{first}", file=sys.stderr)
        return found[:1]
    if is_followed and len(found) > 1:
        raise ConfigError(f"-f: found {len(found)} pods {what}, expected one.")
    return found
