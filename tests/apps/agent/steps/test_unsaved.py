"""What is done though it cannot be saved: only what gives something back."""

from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent.step import not_saved


def running():
    host = Host()
    host.submit("p", box(cpu="2"))
    host.started("p", "c")
    return host


def unsaved(host, *happened):
    host.state, effects = not_saved(host.setup, host.state, happened, "full")
    assert "Save" not in kinds(effects)
    return effects


def test_a_deleted_pod_is_ended_answered_and_forgotten_and_saving_is_tried_again():
    host = running()
    effects = unsaved(host, ev.PodDeleted("p", host.now, 7))
    assert [e.accepted for e in effects if isinstance(e, ev.Answer)] == [True]
    assert kinds(effects)[-2:] == ["StopContainer", "Redeliver"]
    effects = unsaved(host, ev.ContainerExited("p", "c", 0, 143, host.now))
    assert ev.ForgetPod("p") in effects
    assert not host.state.pods and not host.state.host.cpu.entries
    assert ev.Redeliver(ev.SaveDue(), host.setup.save_retry_seconds) in effects
    assert kinds(host.event(ev.SaveDue())) == ["Save"]


def test_nobody_is_admitted_or_started_with_what_has_become_free():
    host = running()
    host.event(ev.PodDeleted("p", host.now))
    host.submit("q", box(cpu="2"))  # of another name, so that it runs
    record = host.state.pods["p"].record
    host.event(ev.PodSubmitted("again", record, "api", host.now))
    assert host.state.pods["again"].waits_for_name
    effects = unsaved(host, ev.ContainerExited("p", "c", 0, 143, host.now))
    assert "StartContainer" not in kinds(effects)
    assert host.state.pods["again"].waits_for_name


def test_a_pod_that_is_asked_for_is_refused_and_an_end_is_handed_in_again():
    host = running()
    before = host.state
    record = host.state.pods["p"].record
    asked = ev.PodSubmitted("new", record, "api", host.now, 3)
    ended = ev.ContainerExited("p", "c", 0, 1, host.now)
    effects = unsaved(host, asked, ended)
    assert host.state is before
    assert [e.reason for e in effects if isinstance(e, ev.Answer)] == ["StateNotSaved"]
    assert ev.Redeliver(ended, host.setup.save_retry_seconds) in effects
