"""Creating, replacing and ending pods through the agent's API, one result for each, shown."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import msgspec
import typer

from numalign.adapters.local.agent_client import AgentClient, RefusalError
from numalign.cli.main import FAILED, one_line
from numalign.cli.output import Output
from numalign.core.errors import PeerError
from numalign.wire.pods.workloads import Workload

GONE_SECONDS_MAX: Final = 660.0  # the longest grace period that the agent grants, and a minute
POLL_SECONDS: Final = 0.1
WAITS: Final = "WaitingForPredecessor"


@dataclass(frozen=True, slots=True)
class Change:
    namespace: str
    name: str
    result: str  # created, replaced, unchanged, refused, deleted, not found
    reason: str = ""
    message: str = ""
    uid: str = ""
    owner: str = ""  # such as Deployment/web
    kind: str = "pod"

    @property
    def is_ok(self) -> bool:
        """Whether it is as the user wants it."""
        return self.result not in {"refused", "not found"}

    @property
    def line(self) -> str:
        """One line for people."""
        why = f": {self.reason}: {self.message}" if self.reason else ""
        return f"{self.title} {self.result}{why}"

    @property
    def title(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else f"{self.kind}s"


def applied(agent: AgentClient, workloads: Iterable[Workload]) -> Iterator[Change]:
    """Makes sure that pods are there as written, one workload after the other."""
    seen: dict[tuple[str, str, str], str] = {}
    for workload in workloads:
        key = workload.kind, workload.namespace, workload.name
        if key in seen and workload.document.get("metadata", {}).get("name"):
            text = f"it is there twice, in {seen[key]} and {workload.source}: the first one counts"
            yield Change(*key[1:], "refused", "AlreadyExists", text, kind=workload.kind.lower())
            continue
        seen[key] = workload.source
        for change in _applied(agent, workload):
            yield _decided(agent, change)


def _applied(agent: AgentClient, workload: Workload) -> list[Change]:
    body = msgspec.json.encode(workload.document)
    try:
        found = agent.tried("POST", "/pods", query={"apply": "true"}, body=body)["changes"]
    except RefusalError as refusal:
        if refusal.changes is None:
            raise refusal.as_error(agent.where) from refusal
        found = refusal.changes
    return [Change(**change) for change in found]


def _decided(agent: AgentClient, change: Change) -> Change:
    """The change when it is known what became of a pod that had to wait for another to end."""
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while change.reason == WAITS:
        pod = _found(agent, change.uid)
        status = {} if pod is None else pod["status"]
        if status.get("phase") == "Failed":
            message = str(status.get("message", "")).removeprefix("Pod was rejected: ")
            return replace(change, result="refused", reason=status["reason"], message=message)
        if pod is None or status.get("reason") != WAITS:
            return replace(change, reason="", message="")
        if time.monotonic() > deadline:
            raise PeerError(f"{agent.where}: pod {change.name} still waits", retry=True)
        time.sleep(POLL_SECONDS)
    return change


def end(agent: AgentClient, uid: str) -> None:
    """Has a pod ended; it may take its time."""
    try:
        agent.tried("DELETE", f"/pods/{uid}")
    except RefusalError as refusal:
        if refusal.status != 404:
            raise refusal.as_error(agent.where) from refusal


def wait_until_gone(agent: AgentClient, uid: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while _found(agent, uid) is not None:
        if time.monotonic() > deadline:
            raise PeerError(f"{agent.where}: the pod {uid} is still there", retry=True)
        time.sleep(POLL_SECONDS)


def _found(agent: AgentClient, uid: str) -> dict[str, Any] | None:
    try:
        pod: dict[str, Any] = agent.tried("GET", f"/pods/{uid}")
    except RefusalError as refusal:
        if refusal.status != 404:
            raise refusal.as_error(agent.where) from refusal
        return None
    return pod


def show(out: Output, output: str, changes: Iterable[Change]) -> None:
    """Prints each change when it is done, or all at the end as data; exits with 1 after a no."""
    done = []
    for change in changes:
        done.append(change)
        if output == "lines" or (output == "name" and not change.is_ok):
            out.text(one_line(change.line) + "\n")
        elif output == "name":
            out.text(one_line(change.title) + "\n")
    if output in {"json", "yaml"}:
        out.data(output, [asdict(change) for change in done])
    if not all(change.is_ok for change in done):
        raise typer.Exit(FAILED)
