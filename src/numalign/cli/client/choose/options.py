"""The options that choose pods: -n, -A and -l, the same for every command that has them."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from numalign.cli.options import optional
from numalign.core.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient
    from numalign.cli.client.choose.targets import Target

SelectorOption = Annotated[
    str | None,
    optional(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Only those with these labels: a=b, a!=b, a, !a, 'a in (b,c)', joined by commas.",
    ),
]


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    namespace: Annotated[
        str | None, optional("--namespace", "-n", metavar="NAME", help="Only this namespace.")
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces, also with -n.")
    ] = False
    selector: SelectorOption = None

    @property
    def is_narrow(self) -> bool:
        """Whether it leaves pods out."""
        return bool(self.selector) or (self.namespace is not None and not self.all_namespaces)

    def pods(
        self, agent: AgentClient, targets: Sequence[Target] = (), *, default: str | None = None
    ) -> list[dict[str, Any]]:
        """The pods that options and targets choose; ``default`` is the namespace without -n."""
        from numalign.cli.client.choose.labels import selector_of

        wanted = selector_of(self.selector) if self.selector else None
        if wanted is not None and any(target.name for target in targets):
            raise ConfigError("found names and -l, expected one of them.")
        namespace = None if self.all_namespaces else self.namespace or default
        found = agent.get("/pods", **({} if namespace is None else {"namespace": namespace}))
        return [
            pod
            for pod in found["items"]
            if (not targets or any(target.is_met_by(pod) for target in targets))
            and (wanted is None or wanted.matches(pod["metadata"].get("labels")))
        ]


def the_only(pods: Sequence[dict[str, Any]], target: Target) -> dict[str, Any]:
    """The one pod of a name; PeerError if there is none, or several in other namespaces.

    While a pod is being replaced there are two, and the new one counts.
    """
    staying = [pod for pod in pods if not pod["numalign"]["deleting"]] or list(pods)
    if len(staying) == 1:
        return staying[0]
    if not staying:
        raise PeerError(f"found no pod {target.name}. See 'numalign get pods'.")
    spaces = ", ".join(sorted(pod["metadata"]["namespace"] for pod in staying))
    raise PeerError(f"found pods {target.name} in the namespaces {spaces}: say which with -n.")
