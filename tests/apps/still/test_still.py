"""Hosts that stand still look as a running agent's."""

import asyncio
from pathlib import Path

import pytest
from tests.apps.past.test_chain import submitted
from tests.web.in_memory_agent import GPU, InMemoryAgent

from numalign.apps.agent.views.captured import captured
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import pod_list
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.sources import inputs_in
from numalign.apps.still.still import refused_pod, still_host, time_of
from numalign.wire.pods.records import Metadata, PodRecord


@pytest.fixture
def agent(tmp_path: Path):
    return InMemoryAgent(tmp_path)


def test_a_capture_of_an_agent_looks_like_the_agent(agent):
    submitted(agent, "a", cpu="4", gpus=1)
    submitted(agent, "b", cpu="200m")
    bundle = captured(agent.setup, agent.state, agent.machine, "2030-01-31T08:00:00Z")
    inputs = inputs_in(bundle, "a.tar.gz")
    assert (inputs.origin, inputs.taken_at) == ("agent", "2030-01-31T08:00:00Z")
    still = still_host(loaded(inputs).snapshot, inputs.pods, at=60.0)
    then = node_view(still.setup, still.state, still.machine)
    now = node_view(agent.setup, agent.state, agent.machine)
    assert [node.occupants for node in then.nodes] == [node.occupants for node in now.nodes]
    assert [node.cpus for node in then.nodes] == [node.cpus for node in now.nodes]
    assert then.devices == now.devices
    assert then.largest == now.largest
    items = pod_list(still.setup, still.state).items
    assert [(p.metadata.name, p.status.phase) for p in items] == [
        ("a", "Running"),
        ("b", "Running"),
    ]
    own = items[0].numalign.containers["main"]
    assert (own.exclusive, own.aligned, own.devices) == (True, True, {GPU: ["g0"]})


def test_init_containers_of_a_running_pod_have_ended(agent):
    from numalign.apps.agent import events as ev
    from numalign.wire.pods.manifests import record_of

    amounts = {"limits": {"cpu": "2", "memory": "1Gi"}}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "initContainers": [{"name": "init", "resources": amounts}],
            "containers": [{"name": "main", "resources": amounts}],
        },
    }
    agent._tell(ev.PodSubmitted("u", record_of(pod, "test"), "api", agent.now, 1))
    bundle = captured(agent.setup, agent.state, agent.machine, "")
    inputs = inputs_in(bundle, "a.tar.gz")
    still = still_host(loaded(inputs).snapshot, inputs.pods)
    [item] = pod_list(still.setup, still.state).items
    own = item.numalign.containers
    assert (own["init"].exclusive, own["init"].cpus) == (False, "")
    assert own["main"].exclusive
    names = {
        o.container
        for n in node_view(still.setup, still.state, still.machine).nodes
        for o in n.occupants
    }
    assert names == {"main"}


def test_nothing_happens_to_it(agent):
    still = still_host(_snapshot(agent))
    assert still.health() == []

    async def listen():
        async with asyncio.timeout(0.05):
            async for _ in still.subscribe():
                return "something"

    with pytest.raises(TimeoutError):
        asyncio.run(listen())


def _snapshot(agent):
    from numalign.apps.agent.views.asked import snapshot_of

    return snapshot_of(agent.setup, agent.state, agent.machine)


def test_a_refused_pod_is_shown_with_its_reason(agent):
    record = PodRecord(metadata=Metadata(name="big", namespace="shop"))
    one = refused_pod(record, "u", "TopologyAffinityError", "no", 60.0)
    still = still_host(_snapshot(agent), refused={"u": one})
    [item] = pod_list(still.setup, still.state).items
    assert (item.status.phase, item.status.reason) == ("Failed", "TopologyAffinityError")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:01:00Z", 60.0), (None, 5.0), ("yesterday", 5.0), ("", 5.0)],
)
def test_the_time_of_a_pod_is_that_of_its_manifest_if_it_is_one(text, seconds):
    assert time_of(PodRecord(metadata=Metadata(creationTimestamp=text)), 5.0) == seconds
