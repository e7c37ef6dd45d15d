"""Creating, replacing and ending pods through the agent's API, one result for each, shown."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec
import typer

from numalign.adapters.local.agent_client import AgentClient, RefusalError
from numalign.cli.main import FAILED, one_line
from numalign.cli.output import Output
from numalign.core.errors import PeerError
from numalign.wire.pods.records import PodRecord

GONE_SECONDS_MAX: Final = 660.0  # the longest grace period that the agent grants, and a minute
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Change:
    namespace: str
    name: str
    result: str  # created, replaced, unchanged, refused, deleted, not found
    reason: str = ""
    message: str = ""
    uid: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether it is as the user wants it."""
        return self.result not in {"refused", "not found"}

    @property
    def line(self) -> str:
        """One line for people."""
        why = f": {self.reason}: {self.message}" if self.reason else ""
        return f"pod/{self.name} {self.result}{why}"


def applied(agent: AgentClient, record: PodRecord) -> Change:
    """Makes sure that a pod is there as written; another one of its name is replaced."""
    namespace = record.metadata.namespace or "default"
    result = "created"
    if record.metadata.name:
        known = agent.get("/pods", name=record.metadata.name, namespace=namespace)["items"]
        for pod in known:
            if _is_same(pod, record):
                uid = pod["metadata"]["uid"]
                return Change(namespace, record.metadata.name, "unchanged", uid=uid)
            ended(agent, pod["metadata"]["uid"], wait=True)
            result = "replaced"
    body = msgspec.json.encode(record)
    try:
        pod = agent.tried("POST", "/pods", body=body)
    except RefusalError as refusal:
        if refusal.status != 422:
            raise refusal.as_error(agent.where) from refusal
        uid = (refusal.pod or {}).get("metadata", {}).get("uid", "")
        name = record.metadata.name or record.metadata.generateName
        return Change(namespace, name, "refused", refusal.reason, refusal.error, uid)
    found = pod["metadata"]
    return Change(found["namespace"], found["name"], result, uid=found["uid"])


def _is_same(pod: dict[str, Any], record: PodRecord) -> bool:
    """Whether a pod that still runs or will run is just what is asked for."""
    if pod["status"]["phase"] in {"Failed", "Succeeded"} or pod["numalign"]["deleting"]:
        return False
    metadata = pod["metadata"]
    wanted = {**msgspec.to_builtins(record.spec), "restartPolicy": record.spec.restartPolicy}
    return bool(
        pod["spec"] == wanted
        and metadata.get("labels") == record.metadata.labels
        and metadata.get("annotations") == record.metadata.annotations
        and record.metadata.uid in {"", metadata["uid"]}
    )


def ended(agent: AgentClient, uid: str, *, wait: bool) -> None:
    """Ends a pod, and with ``wait`` returns only when it is gone."""
    try:
        agent.tried("DELETE", f"/pods/{uid}")
    except RefusalError as refusal:
        if refusal.status != 404:
            raise refusal.as_error(agent.where) from refusal
        return
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while wait and _exists(agent, uid):
        if time.monotonic() > deadline:
            raise PeerError(f"{agent.where}: the pod {uid} is still there", retry=True)
        time.sleep(POLL_SECONDS)


def _exists(agent: AgentClient, uid: str) -> bool:
    try:
        agent.tried("GET", f"/pods/{uid}")
    except RefusalError as refusal:
        if refusal.status != 404:
            raise refusal.as_error(agent.where) from refusal
        return False
    return True


def show(out: Output, output: str, changes: Iterable[Change]) -> None:
    """Prints each change when it is done, or all at the end as data; exits with 1 after a no."""
    done = []
    for change in changes:
        done.append(change)
        if output == "lines":
            out.text(one_line(change.line) + "\n")
    if output != "lines":
        out.data(output, [asdict(change) for change in done])
    if not all(change.is_ok for change in done):
        raise typer.Exit(FAILED)
