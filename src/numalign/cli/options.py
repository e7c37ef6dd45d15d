"""Options that several commands share, alone and in groups.

A group is a dataclass whose fields are options. A command that takes one has all of them, in its
place, once ``unfold`` has been applied: ``@app.command(...)`` above ``@unfold``.
"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

_R = TypeVar("_R")


def optional(*names: str, help: str, **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    """An option that is absent unless somebody gives it, so that no default is shown."""
    return typer.Option(*names, help=help, show_default=False, **more)


def unfold(command: Callable[..., _R]) -> Callable[..., _R]:
    """The command with the options of each group in place of the group."""
    groups: dict[str, type] = {}
    options: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and is_dataclass(one.annotation):
            groups[one.name] = one.annotation
            options += inspect.signature(one.annotation, eval_str=True).parameters.values()
        else:
            options.append(one)

    @wraps(command)
    def unfolded(**values: Any) -> _R:  # noqa: ANN401 - whatever the options hold
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    unfolded.__signature__ = inspect.Signature([o.replace(kind=keyword) for o in options])  # type: ignore[attr-defined] # what inspect and typer look at
    unfolded.__annotations__ = {option.name: option.annotation for option in options}
    return unfolded


def _machine_names() -> list[tuple[str, str]]:
    from numalign.core.machine.examples.catalogue import EXAMPLES

    names = [(example.name, example.title) for example in EXAMPLES.values()]
    return [("host", "the running host"), *names]


MachineOption = Annotated[
    str | None,
    optional(
        "--machine",
        "-m",
        metavar="SOURCE",
        autocompletion=_machine_names,
        help="Where the machine comes from: host (the default), a directory with sys/ in it, a "
        "capture, hwloc XML, machine YAML or JSON, an example (see 'numalign machines'), "
        "or a shape such as 2s:1n:16c:2t.",
    ),
]
FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="A pod or workload, a directory of them, or - for stdin. Repeat for more.",
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    optional(
        "--kubeconfig",
        help="The way to the cluster. Default: KUBECONFIG, the pod we run in, or ~/.kube/config.",
    ),
]
ShapesOption = Annotated[
    Path | None,
    optional(
        "--shapes",
        metavar="FILE",
        help="Reference shapes, as YAML: name -> {cpu: 16, memory: 64Gi, weight: 3}. Their "
        "capacity is among the metrics and on the page.",
    ),
]
TlsCertOption = Annotated[
    Path | None, optional("--tls-cert", help="Serve HTTPS with this certificate.")
]
TlsKeyOption = Annotated[Path | None, optional("--tls-key", help="The key of it.")]
AllowedHostOption = Annotated[
    list[str] | None,
    optional(
        "--allowed-host",
        metavar="NAME",
        help="Answer to this name in the Host header too, beside those of loopback and the address "
        "listened on. Repeat for more.",
    ),
]
ProbesOption = Annotated[
    str,
    typer.Option("--listen", help="Where /metrics, /healthz and /readyz are; '' for nowhere."),
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    kubeconfig: KubeconfigOption = None
    context: Annotated[
        str | None, optional("--context", help="The context of the kubeconfig to use.")
    ] = None
