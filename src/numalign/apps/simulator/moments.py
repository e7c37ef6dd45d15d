"""One host of a simulation at one moment, as a bundle that all commands about a host open."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from numalign import __version__
from numalign.apps.simulator.building import Plan, plans
from numalign.apps.simulator.running import Task, prepared
from numalign.core.errors import ConfigError
from numalign.core.fleet.simulation.model import SimHost
from numalign.core.fleet.simulation.run import Simulation
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.machine.machine import Machine
from numalign.wire import bundle
from numalign.wire.bundle import About, Bundle, DeviceRecord
from numalign.wire.checkpoints import state_files
from numalign.wire.fleet.scenario.reading import Scenario
from numalign.wire.kubelet.config import KubeletConfig, document_of
from numalign.wire.machine.machine_yaml import to_json
from numalign.wire.pods.running import record_of_pod

_TIME: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(s|m|h|d)?")
_UNITS: Final = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_EPOCH: Final = "1970-01-01T00:00:00Z"  # simulated time has no date


def seconds_of(text: str | None) -> float:
    """A time such as 5400, 90m or 36h; without one the end."""
    if text is None:
        return math.inf
    match = _TIME.fullmatch(text)
    if match is None:
        raise ConfigError(f"--at: found {text!r}, expected seconds, or a time such as 90m or 36h")
    return float(match[1]) * _UNITS[match[2]]


def run_until(scenario: Scenario, until: float, plan: Plan | None = None) -> Simulation:
    """The fleet as it is then, with the first scheduler and seed of the scenario."""
    plan = plan or plans(scenario)[0]
    run = prepared(scenario, Task(0, plan.schedulers[0], scenario.seeds[0]), plan)
    last = max((work.job.at for work in run.works), default=0.0)
    run.advance(min(until, last))
    return run


@dataclass(frozen=True, slots=True)
class OpenedHost:
    """One host of a run, which was stopped at some moment."""

    run: Simulation
    host: SimHost
    scheduler: str
    machine: Machine
    config: KubeletConfig


def opened_host(scenario: Scenario, name: str, until: float) -> OpenedHost:
    """A host as it is then, with the first scheduler and seed of the scenario."""
    plan = plans(scenario)[0]
    group = next((group for group in plan.hosts if name in group.names), None)
    if group is None:
        first = plan.hosts[0].names[0]
        raise ConfigError(f"--host: found no host {name!r} in the scenario; one is {first}")
    if group.machine is None or group.config is None:
        raise ConfigError(f"--host: {name} comes from a capture, which has no whole machine")
    run = run_until(scenario, until, plan)
    host = next(host for host in run.hosts if host.name == name)
    return OpenedHost(run, host, plan.schedulers[0], group.machine, group.config)


def when(scenario: Scenario, opened: OpenedHost) -> str:
    """Of which run this is, and which moment."""
    now = opened.run.now
    hours = f" ({now / 3600:.1f} h)" if now >= 3600 else ""
    return (
        f"a simulated host, {now:.0f} s{hours} after the start, scheduler {opened.scheduler}, "
        f"seed {scenario.seeds[0]}"
    )


def host_bundle(scenario: Scenario, opened: OpenedHost) -> Bundle:
    """It as a bundle."""
    host, name = opened.host, opened.host.name
    settings = host.frame.host.settings
    about = About(
        created_at=_EPOCH,
        numalign=__version__,
        host=name,
        kubernetes=settings.version.value,
        origin="simulation",
        pods_complete=True,
        pods_max=host.frame.totals[PODS],
        devices={n: tuple(_devices(host, n)) for n in sorted(host.state.devices.resources)},
        notes=(when(scenario, opened),),
    )
    files = state_files.encoded(host.state, settings)
    records = tuple(record_of_pod(pod) for pod in host.state.pods.values())
    return Bundle(
        about,
        {
            bundle.MACHINE: to_json(opened.machine).encode(),
            bundle.CONFIG: bundle.document(document_of(opened.config)),
            bundle.PODS: bundle.pod_list(records),
            **{f"state/{file}": data for file, data in files.items()},
        },
    )


def _devices(host: SimHost, name: str) -> Iterable[DeviceRecord]:
    resource = host.state.devices.resources[name]
    for number, device in enumerate(resource.ids):
        is_healthy = bool(resource.healthy >> number & 1)
        yield DeviceRecord(device, resource.nodes_of[device], is_healthy)
