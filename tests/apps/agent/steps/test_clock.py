"""A clock that is set while containers wait to be started again, and while no agent runs."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, restarted, starts

from numalign.apps.agent import events as ev


def failed_once():
    """A host with a container that waits for its second start."""
    host = Host()
    host.submit("p", box(cpu="2"))
    host.started("p", "c")
    host.exited("p", "c", 1)
    return host, host.state.pods["p"].containers["c"].retry_at - host.now


def test_a_clock_that_is_set_back_makes_no_back_off_longer():
    host, delay = failed_once()
    host.event(ev.ClockMoved(-3600.0))
    assert not starts(host.event(ev.Tick(host.now - 3600 + delay - 1)))
    assert starts(host.event(ev.Tick(host.now - 3600 + delay)))


def test_a_clock_that_is_set_forward_makes_no_back_off_shorter_and_no_pod_older():
    host, delay = failed_once()
    host.event(ev.ClockMoved(3600.0))
    assert host.state.pods["p"].created_at == 3600.0
    assert not starts(host.event(ev.Tick(host.now + 3600 + delay - 1)))
    assert starts(host.event(ev.Tick(host.now + 3600 + delay)))


def test_a_clock_that_was_set_back_while_no_agent_ran_makes_nobody_wait_longer_than_any_back_off():
    host, _ = failed_once()
    pod = host.state.pods["p"]
    late = replace(pod.containers["c"], retry_at=1e9)
    pods = {"p": replace(pod, containers={"c": late})}
    host.state = replace(host.state, pods=pods)
    restarted(host)
    assert starts(host.event(ev.Tick(host.now + host.setup.backoff_seconds_max)))


def test_what_could_not_be_removed_or_ended_is_tried_again_while_that_is_still_right():
    host, _ = failed_once()
    assert host.event(ev.CleanUpDue("p")) == []
    assert host.event(ev.StopDue("p", "c")) == []
    assert host.event(ev.CleanUpDue("gone")) == [ev.ForgetPod("gone")]
    assert host.event(ev.StopDue("gone", "c")) == [ev.StopContainer("gone", "c", 0.0)]
    host.event(ev.Tick(1000.0))
    host.started("p", "c")
    host.event(ev.PodDeleted("p", host.now))
    assert host.event(ev.StopDue("p", "c")) == [ev.StopContainer("p", "c", 0.0)]
