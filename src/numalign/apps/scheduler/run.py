"""One replica of the scheduler: a driver, and an election for one that binds on its own."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.kubernetes.lease import Election
from numalign.apps.scheduler.driver import Scheduler


def works(
    api: ApiServer, scheduler: Scheduler, lease: str | None
) -> list[Coroutine[Any, Any, None]]:
    """What a replica runs side by side; ``lease`` is namespace/name, None for no election."""
    if lease is None:
        # An extender binds what a kube-scheduler tells it, which has an election of its own.
        scheduler.lead(is_leading=not scheduler.state.is_extender)
        return [scheduler.run()]
    namespace, _, name = lease.rpartition("/")
    election = Election(
        api,
        namespace=namespace or api.namespace,
        name=name,
        identity=scheduler.instance,
        on_change=scheduler.lead,
    )
    return [scheduler.run(), election.run()]
