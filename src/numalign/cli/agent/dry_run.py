"""``numalign run --dry-run``: where a command would sit on the agent's host as it is now."""

from __future__ import annotations

from dataclasses import replace

import typer

from numalign.apps.agent.steps.deciding import with_policy
from numalign.apps.snapshots import verdicts
from numalign.apps.snapshots.verdicts import Outcome
from numalign.cli.agent.running import Wish
from numalign.cli.host.admit import show
from numalign.cli.host.source_options import HostOptions
from numalign.cli.main import FAILED, OK
from numalign.cli.output import Output
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import mems_of
from numalign.core.values import mempolicy
from numalign.core.values.sets import NodeSet
from numalign.wire.pods.manifests import record_of


def show_place(ctx: typer.Context, wish: Wish, socket: str) -> int:
    """Prints the columns of ``numalign admit``; 1 if it would be refused."""
    record = record_of(wish.document(), "run")
    loaded = HostOptions().loaded(f"unix://{socket}")
    if wish.policy is not None:
        host = with_policy(loaded.snapshot.host, wish.policy)
        loaded = replace(loaded, snapshot=replace(loaded.snapshot, host=host))
    [found] = verdicts.outcomes(loaded.snapshot, [record])
    if found.is_admitted and wish.memory_policy is not None:
        _check_mempolicy(found, wish.memory_policy)
    show(Output.of(ctx), "table", [found], "'--wait' queues it until it fits.")
    return OK if found.is_admitted else FAILED


def _check_mempolicy(found: Outcome, text: str) -> None:
    after = found.after
    held = after.state.memory.entries.get(found.pod.uid, {})
    nodes = NodeSet.of(node.id for node in after.host.info.nodes if node.memory_bytes)
    given = mems_of([block for blocks in held.values() for block in blocks]) or nodes
    try:
        mempolicy.parsed(text).within(given)
    except ValueError as error:
        raise PeerError(f"--dry-run: it would be refused: {error}") from error
