"""What is done though it cannot be saved: only what gives something back."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent.step import not_saved
from numalign.apps.agent.steps import admission
from numalign.wire.pods.records import Metadata, PodRecord, PodSpec


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


# What comes again by itself.


def manifest(cpu="2"):
    spec = PodSpec(containers=[box(cpu=cpu)])
    record = PodRecord(metadata=Metadata(name="m"), spec=spec)
    return ev.PodSubmitted("m", record, "file:m.json", 0.0)


def handed_in_again(effects):
    return [effect.event for effect in effects if isinstance(effect, ev.Redeliver)]


def test_a_manifest_that_could_not_be_saved_is_told_and_taken_up_when_it_can_be():
    host = Host()
    [again] = handed_in_again(unsaved(host, manifest()))
    assert host.state.put_off["m"].why == "full"
    host.event(ev.Tick(host.now))
    assert not host.state.pods, "it comes by itself"
    assert "StartContainer" in kinds(host.event(again))
    assert not host.state.put_off
    before = host.state
    assert not host.event(again) and host.state is before, "and only once"


def test_a_manifest_that_is_removed_before_it_could_be_saved_never_becomes_a_pod():
    host = Host()
    [again] = handed_in_again(unsaved(host, manifest()))
    unsaved(host, ev.PodDeleted("m", host.now))
    assert not handed_in_again(unsaved(host, again)), "nor does it come on and on"
    assert not host.event(again)
    assert not host.state.pods and not host.state.put_off


def test_of_a_manifest_that_is_changed_before_it_could_be_saved_only_the_last_version_counts():
    host = Host()
    [old] = handed_in_again(unsaved(host, manifest()))
    changed = manifest(cpu="1")
    effects = unsaved(host, ev.PodDeleted("m", host.now), changed)
    [new] = [one for one in handed_in_again(effects) if isinstance(one, ev.PodSubmitted)]
    assert not host.event(old)
    host.event(new)
    assert host.state.pods["m"].record == changed.record


def test_a_pod_whose_manifest_goes_while_a_plugin_is_asked_is_not_admitted():
    host = Host()
    event = manifest()
    host.state, again = admission.put_on_its_way(host.state, event, "")
    assert again.is_again
    host.event(ev.PodDeleted("m", host.now))
    assert not host.event(again) and not host.state.pods


def test_who_waits_for_an_answer_gets_one_and_is_not_put_off():
    host = Host()
    asked = replace(manifest(), request=7)
    assert admission.put_on_its_way(host.state, asked, "") == (host.state, asked)


def test_ticks_do_not_become_more_and_more_while_the_disk_is_full():
    assert not unsaved(running(), ev.Tick(0.0), ev.RepairDue())
