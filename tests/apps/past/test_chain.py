"""Every moment of a busy host is told from frames alone, exactly as the host was then."""

import itertools
import random

import pytest
from tests.web.in_memory_agent import GPU, InMemoryAgent, manifest

from numalign.apps.agent import events as ev
from numalign.apps.past import chain
from numalign.apps.past.shown import shown
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.kubelet.devices.devices import Device
from numalign.wire.moments import Moment, frame, unframed
from numalign.wire.pods.manifests import core_pod, record_of


def submitted(agent, name, **more):
    record = record_of(manifest(name, **more), "test")
    record.metadata.uid = f"uid-{name}"
    agent._tell(ev.PodSubmitted(f"uid-{name}", record, "api", agent.now, 1))


def grown(agent, rng, steps):
    """The states that an agent goes through."""
    states = [agent.state]
    for number in range(steps):
        known = sorted(agent.state.pods)
        choice = rng.random()
        if choice < 0.3 and known:
            agent._tell(ev.PodDeleted(rng.choice(known), agent.now, 1))
        elif choice < 0.4:
            devices = tuple(Device(f"g{n}", (n % 2,), rng.random() < 0.8) for n in range(4))
            agent._tell(ev.DevicesReported(GPU, devices, agent.now))
        else:
            cpu, memory = rng.choice(["1", "2", "4", "500m"]), rng.choice(["1Gi", "3Gi"])
            submitted(agent, f"p{number}", cpu=cpu, memory=memory, gpus=rng.choice([0, 0, 1]))
        states.append(agent.state)
    return states


@pytest.mark.parametrize("policy", ["single-numa-node", "best-effort"])
@pytest.mark.parametrize("seed", range(6))
def test_every_moment_is_told_exactly_from_the_frames(tmp_path, seed, policy):
    rng = random.Random(seed)
    agent = InMemoryAgent(tmp_path, policy=policy)
    states = grown(agent, rng, 40)
    head = chain.head_of(agent.setup, "host")
    frames = [chain.whole(states[0], Moment(0, 0.0, "started"))]
    for number, (before, after) in enumerate(itertools.pairwise(states), 1):
        frames.append(chain.change(before.host, after, Moment(number, float(number), "event")))
    told = [unframed(frame(one)) for one in frames]
    assert any(len(state.host.pods) > 2 for state in states)
    for number, state in enumerate(states):
        then = chain.replayed(unframed(frame(head)), told, number)
        pods = [core_pod(record, uid=uid) for uid, record in then.records.items()]
        found = rebuilt(then.placement, pods).state
        assert found.cpu.entries == state.host.cpu.entries
        assert found.cpu.shared == state.host.cpu.shared
        assert found.memory.entries == state.host.memory.entries
        assert found.memory.machine == state.host.memory.machine
        assert found.devices.busy == state.host.devices.busy
        assert {n: r.healthy for n, r in found.devices.resources.items()} == {
            n: r.healthy for n, r in state.host.devices.resources.items()
        }
        assert found.pods.keys() == state.host.pods.keys()


def test_a_change_is_small(tmp_path):
    agent = InMemoryAgent(tmp_path)
    for number in range(5):
        submitted(agent, f"p{number}", cpu="1")
    before = agent.state
    submitted(agent, "last", cpu="1")
    found = chain.change(before.host, agent.state, Moment(1, 0.0, "pod_admitted"))
    assert list(found.pods) == ["uid-last"]
    assert not bytes(found.devices)
    nothing = chain.change(agent.state.host, agent.state, Moment(1, 0.0, "pod_admitted"))
    assert (nothing.pods, nothing.gone, bytes(nothing.accounts)) == ({}, [], b"")


def test_decisions_that_share_a_state_are_told_one_after_the_other(tmp_path):
    agent = InMemoryAgent(tmp_path)
    before = agent.state
    for name in "abc":
        submitted(agent, name, cpu="1")
    state = agent.state
    first = chain.change(before.host, state, Moment(1, 0.0, "m"), {"uid-b", "uid-c"})
    second = chain.change(state.host, state, Moment(2, 0.0, "m"), {"uid-c"}, {"uid-b", "uid-c"})
    third = chain.change(state.host, state, Moment(3, 0.0, "m"), set(), {"uid-c"})
    assert [list(one.pods) for one in (first, second, third)] == [["uid-a"], ["uid-b"], ["uid-c"]]


def test_nothing_secret_is_kept(tmp_path):
    agent = InMemoryAgent(tmp_path)
    submitted(agent, "a", env=[{"name": "PASSWORD", "value": "hunter2"}], args=["--key=hunter2"])
    data = frame(chain.whole(agent.state, Moment(1, 0.0, "m")))
    told = unframed(data)
    assert "hunter2" not in repr(told)
    assert "PASSWORD" not in repr(told)


def test_a_moment_without_its_beginning_is_not_told(tmp_path):
    agent = InMemoryAgent(tmp_path)
    before = agent.state
    submitted(agent, "a")
    later = chain.change(before.host, agent.state, Moment(1, 0.0, "m"))
    assert chain.replayed(chain.head_of(agent.setup, "host"), [later], 1) is None


def test_a_moment_is_shown_as_the_host_was(tmp_path):
    agent = InMemoryAgent(tmp_path)
    submitted(agent, "a", cpu="4", gpus=1)
    change = chain.whole(agent.state, Moment(1, 60.0, "pod_admitted"))
    then = chain.replayed(chain.head_of(agent.setup, "host"), [change], 1)
    found = shown(then, agent.machine, trace=False)
    [item] = found.pods.items
    assert item.status.phase == "Running"
    placed = item.numalign.containers["main"]
    assert (placed.exclusive, placed.aligned, placed.devices) == (True, True, {GPU: ["g0"]})
    assert [node.cpus.exclusive for node in found.node.nodes] == [placed.cpus, ""]
    assert (found.node.source.kind, found.node.source.at) == ("history", 60.0)
