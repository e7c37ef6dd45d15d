"""Containers that cannot be started yet for no fault of their own: their image is not there."""

from dataclasses import replace

from tests.core.hosts import machine, settings

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import AgentSetup, AgentState, Phase, RunState
from numalign.apps.agent.step import step
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.wire.pods.records import ContainerRecord, Metadata, PodRecord, PodSpec


class Host:
    """An agent with one pod whose container is being started."""

    def __init__(self, policy="Never"):
        configured = settings("best-effort", safe=True, memory=False, reserved="0-1")
        info = machine(nodes=1, cores=4)
        built = hosts.build(configured, info)
        self.setup = AgentSetup(built, node_fit.allocatable(configured, info))
        self.state = AgentState(hosts.cleaned(built, hosts.start(built)))
        spec = PodSpec(containers=[ContainerRecord("c")], restartPolicy=policy)
        record = PodRecord(metadata=Metadata(name="p"), spec=spec)
        self.event(ev.PodSubmitted("u", record, "api", 0.0))

    def event(self, event):
        self.state, effects = step(self.setup, self.state, event)
        return effects

    def postpone(self, now, reason="ErrImagePull", attempt=0):
        return self.event(ev.ContainerPostponed("u", "c", attempt, reason, "no such image", now))

    @property
    def status(self):
        return self.state.pods["u"].containers["c"]


def starts(effects):
    return [effect for effect in effects if isinstance(effect, ev.StartContainer)]


def test_it_waits_with_its_reason_and_is_not_counted_as_a_restart():
    host = Host()
    effects = host.postpone(1.0)
    assert isinstance(effects[0], ev.Save)
    assert (host.status.state, host.status.reason) == (RunState.WAITING, "ErrImagePull")
    assert (host.status.restarts, host.state.pods["u"].phase) == (0, Phase.PENDING)
    assert not starts(host.event(ev.Tick(10.9)))
    [again] = starts(host.event(ev.Tick(11.0)))
    assert again.attempt == 0


def test_it_waits_twice_as_long_each_time_and_says_that_it_waits():
    host = Host()
    delays = []
    now = 0.0
    for _ in range(8):
        host.postpone(now)
        delays.append(host.status.retry_at - now)
        now = host.status.retry_at
        assert starts(host.event(ev.Tick(now)))
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]
    host.postpone(now)
    assert host.status.reason == "ImagePullBackOff"
    assert "no such image" in host.status.message


def test_other_reasons_stay_as_they_are():
    host = Host()
    for now in (0.0, 100.0):
        host.postpone(now, "ErrImageNeverPull")
        assert host.status.reason == "ErrImageNeverPull"
        host.event(ev.Tick(now + 99.0))


def test_a_start_that_works_makes_the_next_wait_short_again():
    host = Host("Always")
    host.postpone(0.0)
    host.event(ev.Tick(20.0))
    host.event(ev.ContainerStarted("u", "c", 0, 77, 21.0, "containerd://abc"))
    assert (host.status.postponed, host.status.id) == (0, "containerd://abc")
    host.event(ev.ContainerExited("u", "c", 0, 1, 22.0))
    host.event(ev.Tick(100.0))
    host.postpone(100.0, attempt=1)
    assert host.status.retry_at == 110.0


def test_one_of_another_attempt_is_passed_over():
    host = Host()
    before = host.state
    assert host.postpone(1.0, attempt=4) == []
    assert host.state == before


def test_a_pod_that_is_being_deleted_is_gone_at_once():
    host = Host()
    host.event(ev.PodDeleted("u", 1.0))
    assert "u" in host.state.pods, "its container is still being started"
    effects = host.postpone(2.0)
    assert "u" not in host.state.pods
    assert ev.ForgetPod("u") in effects


def test_a_pod_that_has_ended_lets_its_runtime_rest():
    host = Host()
    host.event(ev.ContainerStarted("u", "c", 0, 77, 1.0))
    effects = host.event(ev.ContainerExited("u", "c", 0, 137, 2.0, "out of memory", "OOMKilled"))
    assert ev.ReleasePod("u") in effects
    assert ev.ForgetPod("u") not in effects
    assert host.status == replace(host.status, reason="OOMKilled", exit_code=137)
