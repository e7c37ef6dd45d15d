"""One host of a simulation at one moment, as an agent there would show it on its page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    RunState,
)
from numalign.apps.agent.views.answers import Health, ManifestList
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import pod_list
from numalign.apps.simulator.building import mix_of, shapes_of
from numalign.apps.simulator.moments import OpenedHost, pod_record, when
from numalign.wire.fleet.scenario.reading import Scenario


def page_answers(scenario: Scenario, opened: OpenedHost) -> dict[str, Any]:
    """What the page asks an agent for."""
    host, run = opened.host, opened.run
    since = {work.uid: work.since for work in run.works}
    owners = {work.uid: work.job.owner for work in run.works}
    pods = {}
    for uid, pod in host.state.pods.items():
        record = pod_record(pod, owners.get(uid, ""))
        containers = {
            c.name: ContainerStatus(RunState.RUNNING, started_at=since.get(uid, 0.0))
            for c in pod.containers
        }
        pods[uid] = AgentPod(
            record, pod, "simulation", since.get(uid, 0.0), Phase.RUNNING, containers=containers
        )
    mix = mix_of(scenario, [work.job for work in run.works])
    setup = AgentSetup(host.frame.host, host.frame.totals, shapes=shapes_of(scenario, mix))
    state = AgentState(host.state, pods)
    machine = replace(opened.machine, name=host.name)
    answers = {
        "node": node_view(setup, state, machine),
        "pods": pod_list(setup, state),
        "readyz": Health("ok", []),
        "manifests": ManifestList("", "", []),
    }
    found: dict[str, Any] = msgspec.to_builtins(answers)
    return {**found, "seconds": run.now, "when": when(scenario, opened)}
