"""Probes, hooks and deadlines, one event at a time."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import Phase, ProbeKind
from numalign.apps.agent.notes import ContainerUnhealthy
from numalign.apps.agent.steps.recovery import recovered
from numalign.wire.pods.records import ExecAction, Hook, Lifecycle, Probe

LIVENESS, READINESS, STARTUP = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
HOOK = Hook(exec=ExecAction(["true"]))


def host():
    found = Host()
    found.setup = replace(found.setup, runs_processes=True)
    return found


def probe(**more):
    return Probe(exec=ExecAction(["true"]), **{"periodSeconds": 5, **more})


def with_probes(name="c", **probes):
    found = box(name)
    for member, value in probes.items():
        setattr(found, member, value)
    return found


def tick(host, now):
    host.now = now
    return [e for e in host.event(ev.Tick(now)) if isinstance(e, ev.RunProbe)]


def answer(host, kind, ok, name="c", message=""):
    attempt = host.status("a", name).restarts
    return host.event(ev.ProbeAnswered("a", name, attempt, kind, ok, message, host.now))


def stops(effects):
    return [e for e in effects if isinstance(e, ev.StopContainer)]


def test_a_probe_is_asked_after_its_delay_and_then_once_a_period():
    agent = host()
    agent.submit("a", with_probes(livenessProbe=probe(initialDelaySeconds=3)))
    agent.started("a", "c")
    assert tick(agent, 2.0) == []
    [asked] = tick(agent, 3.0)
    assert asked.kind is LIVENESS
    assert tick(agent, 30.0) == [], "the answer is still on its way"
    answer(agent, LIVENESS, ok=True)
    assert tick(agent, 34.0) == []
    assert len(tick(agent, 35.0)) == 1


def test_as_many_failures_in_a_row_as_the_threshold_end_a_container():
    agent = host()
    agent.submit("a", with_probes(livenessProbe=probe(failureThreshold=2)))
    agent.started("a", "c")
    for now, ok in ((1, False), (10, True), (20, False)):
        tick(agent, float(now))
        assert stops(answer(agent, LIVENESS, ok=ok)) == []
    tick(agent, 30.0)
    effects = answer(agent, LIVENESS, ok=False, message="code 1")
    assert len(stops(effects)) == 1
    notes = [e.note for e in effects if isinstance(e, ev.Publish)]
    assert isinstance(notes[0], ContainerUnhealthy)
    assert tick(agent, 60.0) == [], "one that is being stopped is left alone"


def test_nobody_is_stopped_for_not_being_ready():
    agent = host()
    agent.submit("a", with_probes(readinessProbe=probe(failureThreshold=1)))
    agent.started("a", "c")
    assert not agent.status("a", "c").is_ready
    tick(agent, 1.0)
    answer(agent, READINESS, ok=True)
    assert agent.status("a", "c").is_ready
    tick(agent, 10.0)
    assert stops(answer(agent, READINESS, ok=False)) == []
    assert not agent.status("a", "c").is_ready


def test_a_startup_probe_holds_the_others_back():
    agent = host()
    one = with_probes(startupProbe=probe(failureThreshold=3), livenessProbe=probe())
    agent.submit("a", one)
    agent.started("a", "c")
    assert [e.kind for e in tick(agent, 1.0)] == [STARTUP]
    answer(agent, STARTUP, ok=False)
    assert not agent.status("a", "c").is_started
    assert [e.kind for e in tick(agent, 10.0)] == [STARTUP]
    answer(agent, STARTUP, ok=True)
    assert agent.status("a", "c").is_started
    assert [e.kind for e in tick(agent, 20.0)] == [LIVENESS]


def test_a_sidecar_lets_the_next_one_start_when_its_startup_probe_has_passed():
    agent = host()
    sidecar = with_probes("s", startupProbe=probe())
    sidecar.restartPolicy = "Always"
    agent.submit("a", box("c"), inits=[sidecar])
    assert not [e for e in agent.started("a", "s") if isinstance(e, ev.StartContainer)]
    tick(agent, 1.0)
    effects = answer(agent, STARTUP, ok=True, name="s")
    assert [e.container for e in effects if isinstance(e, ev.StartContainer)] == ["c"]


def test_an_answer_about_an_earlier_run_counts_for_nothing():
    agent = host()
    agent.submit("a", with_probes(livenessProbe=probe(failureThreshold=1)))
    agent.started("a", "c")
    tick(agent, 1.0)
    agent.exited("a", "c", 1)
    agent.now = 100.0
    agent.event(ev.Tick(100.0))
    agent.started("a", "c")
    effects = agent.event(ev.ProbeAnswered("a", "c", 0, LIVENESS, False, "", 101.0))
    assert stops(effects) == []


def test_the_next_container_starts_when_the_hook_of_the_one_before_has_ended():
    agent = host()
    first = with_probes("x", lifecycle=Lifecycle(postStart=HOOK))
    effects = agent.submit("a", first, box("y"))
    assert [e.container for e in effects if isinstance(e, ev.StartContainer)] == ["x"]
    effects = agent.started("a", "x")
    assert [type(e) for e in effects if isinstance(e, ev.RunPostStart | ev.StartContainer)] == [
        ev.RunPostStart
    ]
    effects = agent.event(ev.PostStartEnded("a", "x", 0, "", agent.now))
    assert [e.container for e in effects if isinstance(e, ev.StartContainer)] == ["y"]


def test_a_container_whose_hook_failed_is_stopped():
    agent = host()
    agent.submit("a", with_probes(lifecycle=Lifecycle(postStart=HOOK)))
    agent.started("a", "c")
    assert len(stops(agent.event(ev.PostStartEnded("a", "c", 0, "code 1", agent.now)))) == 1


def test_a_container_is_stopped_with_its_hook_unless_there_is_no_time_for_it():
    agent = host()
    agent.submit("a", with_probes(lifecycle=Lifecycle(preStop=HOOK)))
    agent.started("a", "c")
    [stop] = stops(agent.event(ev.PodDeleted("a", agent.now)))
    assert stop.pre_stop == HOOK
    agent = host()
    agent.submit("a", with_probes(lifecycle=Lifecycle(preStop=HOOK)))
    agent.state.pods["a"].record.spec.terminationGracePeriodSeconds = 0
    agent.started("a", "c")
    [stop] = stops(agent.event(ev.PodDeleted("a", agent.now)))
    assert stop.pre_stop is None


def test_a_pod_that_is_active_for_too_long_fails():
    agent = host()
    agent.submit("a", box("c"))
    agent.state.pods["a"].record.spec.activeDeadlineSeconds = 10
    agent.started("a", "c")
    assert not stops(agent.event(ev.Tick(9.9)))
    assert len(stops(agent.event(ev.Tick(10.0)))) == 1
    known = agent.state.pods["a"]
    assert (known.phase, known.reason) == (Phase.FAILED, "DeadlineExceeded")
    assert not stops(agent.event(ev.Tick(11.0))), "it was told already"
    agent.exited("a", "c", 143)
    assert "a" not in agent.state.host.pods, "what it held is free again"


def test_probes_go_on_after_a_restart_of_the_agent():
    agent = host()
    agent.submit("a", with_probes(livenessProbe=probe(failureThreshold=1)))
    agent.started("a", "c")
    tick(agent, 1.0)
    answer(agent, LIVENESS, ok=False)  # it is to be stopped, and then the agent dies
    restart(agent)
    assert len(tick(agent, 10.0)) == 1
    restart(agent)
    assert len(tick(agent, 11.0)) == 1, "the answer to the last question went with the agent"
    assert len(stops(answer(agent, LIVENESS, ok=False))) == 1


def restart(agent):
    agent.state, _ = recovered(
        agent.setup,
        cpu=None,
        memory=None,
        saved_devices=None,
        pods=agent.state.pods,
        alive={("a", "c"): 100},
        ended={},
        now=agent.now,
    )
