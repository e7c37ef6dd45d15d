"""``numalign explain pod NAME`` of a running agent: what became of a pod there, why, what helps."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from numalign.cli.client.agent_options import SOCKET_VARIABLE, AgentOptions
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.cli.options import ClusterOptions


def asks_agent(place: AgentOptions, cluster: ClusterOptions, host: str | None) -> bool:
    """Whether an agent is meant, and not a cluster: the one named, or the one on this host."""
    is_cluster = bool(cluster.kubeconfig or cluster.context or host)
    is_named = place.server is not None or (
        place.socket is not None and SOCKET_VARIABLE not in os.environ
    )
    if is_cluster and is_named:
        raise ConfigError(
            "found --socket or --server beside --kubeconfig, --context or --host, expected an "
            "agent or a cluster."
        )
    if is_cluster:
        return False
    from numalign.adapters.local.agent_client import is_answered

    return is_named or place.socket is not None or is_answered(place.url)


def agent_answer(name: str, namespace: str, place: AgentOptions, *, search: bool) -> dict[str, Any]:
    """The answer about one pod of an agent, asked as its host is now."""
    from numalign.cli.client.choose.options import ChoiceOptions, the_only
    from numalign.cli.client.choose.targets import Target

    target = Target(name=name)
    with place.connected() as agent:
        pod = the_only(ChoiceOptions(namespace).pods(agent, [target]), target)
        where = agent.where
    status, placed = pod["status"], pod["numalign"]["containers"]
    if placed:
        found = _admitted(pod, placed)
    elif status["phase"] == "Failed" and status.get("reason"):
        found = _asked_again(pod, place, search=search)
    else:
        text = status.get("message") or status["phase"]
        found = {"admitted": True, "sentence": f"Pod {namespace}/{name} was not refused: {text}."}
    return {"host": where, "status": _status(pod), **found}


def _status(pod: dict[str, Any]) -> str:
    from numalign.cli.client.agent_rows import age_text, pod_status

    word, created = pod_status(pod), pod["metadata"]["creationTimestamp"]
    return f"{word}, asked for {age_text(created, time.time())} ago"


def _admitted(pod: dict[str, Any], placed: dict[str, Any]) -> dict[str, Any]:
    metadata = pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    return {
        "pod": name,
        "admitted": True,
        "sentence": f"Pod {name} is admitted.",
        "placements": [{"name": container, **one} for container, one in placed.items()],
    }


def _asked_again(pod: dict[str, Any], place: AgentOptions, *, search: bool) -> dict[str, Any]:
    """What the agent's host says to a refused pod now, and what would help."""
    from numalign.apps.snapshots import explaining
    from numalign.cli.host.search_progress import SearchProgress
    from numalign.cli.host.source_options import HostOptions
    from numalign.wire.pods.manifests import record_of

    record = record_of({key: pod[key] for key in ("kind", "metadata", "spec")}, place.url)
    loaded = HostOptions().loaded(place.url)
    with SearchProgress() as progress:
        [found] = explaining.answers(loaded.snapshot, [record], going=progress.going, search=search)
    if found["admitted"]:
        found["sentence"] += " It was refused before: apply it again."
    return found
