"""The process behind ``numalign view``: what is shown, and the server of its page."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from numalign import __version__
from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.local.packed import read_file
from numalign.adapters.sources import discovery
from numalign.apps.agent.views.answers import Source
from numalign.apps.cluster_view.board import Seen, look
from numalign.apps.cluster_view.one_host import was_refused
from numalign.apps.cluster_view.tiles import FleetSource
from numalign.apps.scheduler import run
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.scheduler.fit import state_of
from numalign.apps.scheduler.model import State
from numalign.apps.simulator.captured import fleet_capture
from numalign.apps.simulator.moments import host_bundle, opened_host, run_until, seconds_of
from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.sources import inputs_in
from numalign.apps.still.still import still_host
from numalign.cli.cluster.client import Cluster, cluster_in, from_capture
from numalign.cli.daemon import all_until_stopped, configure_logs
from numalign.cli.host.source_options import tell
from numalign.cli.options import ClusterOptions
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.fleet.measures import Mix
from numalign.web.fleet.beside import serve_fleet
from numalign.web.fleet.hub import FleetHub, hub_of
from numalign.web.host.looking import Looking
from numalign.web.host.still import serve_page, still_application
from numalign.wire.fleet.scenario.reading import read
from numalign.wire.kubernetes.scheduling import ClusterPod

Address = tuple[str, int]
Work = Coroutine[Any, Any, None]
UNDATED = "1970"  # simulated time has no date


# One host.


def simulated_host(path: Path, name: str, at: str | None) -> SnapshotInputs:
    """A host of a scenario, some time after its start."""
    scenario = read(read_file(path, str(path)), str(path))
    opened = opened_host(scenario, name, seconds_of(at))
    return inputs_in(host_bundle(scenario, opened), name)


def view_host(inputs: SnapshotInputs, mix: Mix, where: Address) -> int:
    """Serves the page of one host until it is told to stop."""
    found = loaded(inputs)
    tell(found.notes)
    taken_at = _time(inputs.taken_at)
    source = Source(
        _kind(inputs), inputs.source, ["events"], __version__, at=taken_at, notes=list(found.notes)
    )
    host = still_host(found.snapshot, inputs.pods, at=taken_at or time.time())

    def page() -> Work:
        looking = Looking(host, source=source, mix=mix)
        return serve_page(
            lambda access: still_application(looking, access),
            where,
            looking.limits,
            looking.close,
            on_started=_say,
        )

    return _served(page)


def _kind(inputs: SnapshotInputs) -> str:
    if inputs.source == discovery.HOST:
        return "host"
    if inputs.origin:
        return "simulation" if inputs.origin == "simulation" else "capture"
    return "machine"


def _time(text: str) -> float | None:
    if not text or text.startswith(UNDATED):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


# A fleet.


@dataclass(frozen=True, slots=True)
class KnownFleet:
    """A cluster that does not change any more."""

    cluster: Cluster
    source: FleetSource


def captured_fleet(path: Path) -> KnownFleet:
    found = from_capture(path)
    source = FleetSource("capture", path.name, __version__, at=path.stat().st_mtime)
    return KnownFleet(found, source)


def simulated_fleet(path: Path, at: str | None) -> KnownFleet:
    scenario = read(read_file(path, str(path)), str(path))
    run_ = run_until(scenario, seconds_of(at))
    note = f"simulated, {run_.now:.0f} s after the start"
    source = FleetSource("simulation", scenario.form.name, __version__, notes=[note])
    return KnownFleet(cluster_in(fleet_capture(run_)), source)


def view_fleet(fleet: KnownFleet, mix: Mix, pool_label: str | None, where: Address) -> int:
    """Serves the page of a fleet that stands still."""
    numa, known = Fleet(), fleet.cluster
    state = state_of(numa, known.hosts, known.topologies.values(), known.pods)
    refused: dict[str, int] = {}
    for pod in known.pods:
        if was_refused(pod):
            refused[pod.host] = refused.get(pod.host, 0) + 1

    def seen() -> Seen:
        return look(state, numa.frame_and_state, refused=refused, searches=True)

    def pods_on(host: str) -> Iterable[ClusterPod]:
        return [pod for pod in known.pods if pod.host == host]

    return _served(lambda: _page_of(FleetHub(seen, pods_on, fleet.source, mix, pool_label), where))


def view_cluster(options: ClusterOptions, mix: Mix, pool_label: str | None, where: Address) -> int:
    """Serves the page of a live cluster, which is followed as a scheduler does."""
    configure_logs()

    async def served() -> None:
        async with ApiServer.connect(options.kubeconfig, context=options.context) as api:
            numa = Fleet()
            # As an extender that nobody asks it follows everything and changes nothing.
            scheduler = Scheduler(api, State(numa, "", is_extender=True))
            hub = hub_of(scheduler, numa, mix, pool_label, kind="cluster")
            works = run.works(api, scheduler, None)
            await all_until_stopped([*works, _page_of(hub, where)])

    asyncio.run(served())
    return 0


# Serving.


def _served(made: Callable[[], Work]) -> int:
    """Runs the server, which is made where there is a loop."""

    async def served() -> None:
        await all_until_stopped([made()])

    asyncio.run(served())
    return 0


def _page_of(hub: FleetHub, where: Address) -> Work:
    return serve_fleet(hub, where, on_started=_say)


def _say(where: str) -> None:
    print(f"In a browser: {where}/", flush=True)
    print("Ctrl-C ends it.", file=sys.stderr, flush=True)
