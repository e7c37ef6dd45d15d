"""What nobody foresaw: one pod fails with a reason, and everything else goes on."""

from dataclasses import replace

import msgspec
import pytest
from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import INTERNAL_ERROR, Phase, RunState
from numalign.apps.agent.notes import EventFailed
from numalign.apps.agent.steps.recovery import recovered
from numalign.core.errors import unexpected
from numalign.core.pod import Container
from numalign.wire.pods.records import Metadata, PodRecord, PodSpec

# Of a type that no reader would let through, so that nothing behind the reader expects it.
ODD = PodRecord(metadata=Metadata(name="odd"), spec=PodSpec(containers=5))
UNSAVABLE = PodRecord(metadata=Metadata(name="odd\ud800"), spec=PodSpec(containers=[box()]))


def answers(effects):
    return [(e.accepted, e.reason) for e in effects if isinstance(e, ev.Answer)]


@pytest.mark.parametrize("record", [ODD, UNSAVABLE])
def test_a_pod_that_nobody_foresaw_has_failed_and_the_next_one_runs(record):
    host = Host()
    effects = host.event(ev.PodSubmitted("odd", record, "api", 0.0, 7))
    assert answers(effects) == [(False, INTERNAL_ERROR)]
    assert any(isinstance(e, ev.Publish) and isinstance(e.note, EventFailed) for e in effects)
    known = host.state.pods["odd"]
    assert (known.phase, known.reason) == (Phase.FAILED, INTERNAL_ERROR)
    assert "unexpected" in known.message
    assert msgspec.json.encode(known.record)
    assert any("default/odd" in text for text in host.state.problems())
    host.submit("good", box(cpu="2"))
    host.started("good", "c")
    assert host.state.pods["good"].phase is Phase.RUNNING
    host.event(ev.PodDeleted("odd", 0.0, 8))
    assert host.state.problems() == []


def broken(host, uid):
    """Makes a pod one whose every further start and end stumbles on something."""
    known = host.state.pods[uid]
    record = PodRecord(metadata=known.record.metadata, spec=None)
    odd = replace(known, record=record, allocations={("c", "example.com/gpu"): 5})
    host.state = replace(host.state, pods={**host.state.pods, uid: odd})


def test_a_pod_that_cannot_be_started_any_more_fails_alone_when_time_passes():
    host = Host()
    for uid in ("a", "b", "c"):
        host.submit(uid, box())
        host.started(uid, "c")
        host.exited(uid, "c", 1)
    broken(host, "b")
    effects = host.event(ev.Tick(100.0))
    assert [e.uid for e in effects if isinstance(e, ev.StartContainer)] == ["a", "c"]
    assert host.state.pods["b"].reason == INTERNAL_ERROR
    assert kinds(host.event(ev.Tick(101.0))) == [], "it is told once"


def test_what_a_pod_held_is_freed_when_it_fails_without_a_process():
    host = Host()
    host.submit("a", box(cpu="2"))
    host.started("a", "c")
    host.exited("a", "c", 1)
    broken(host, "a")
    host.event(ev.Tick(100.0))
    assert host.state.pods["a"].reason == INTERNAL_ERROR
    assert not host.state.host.cpu.entries


def test_an_end_that_cannot_be_handled_still_ends_the_container():
    host = Host()
    host.submit("a", box())
    host.started("a", "c")
    broken(host, "a")
    host.exited("a", "c", 3)
    known = host.state.pods["a"]
    assert (known.phase, known.reason) == (Phase.FAILED, INTERNAL_ERROR)
    assert known.containers["c"].state is RunState.EXITED
    assert known.containers["c"].exit_code == 3


def test_a_fault_is_forgotten_when_an_event_of_its_kind_is_handled_again():
    host = Host()
    host.event(ev.DevicesReported("example.com/gpu", 5, 0.0))
    assert [text.partition(":")[0] for text in host.state.problems()] == ["DevicesReported"]
    host.event(ev.DevicesReported("example.com/gpu", (), 0.0))
    assert host.state.problems() == []


@pytest.mark.parametrize("containers", [5, (Container("c", {"cpu": "x"}, {"cpu": "x"}),)])
def test_one_saved_pod_that_cannot_be_taken_up_does_not_keep_the_agent_from_starting(containers):
    host = Host()
    for uid in ("a", "b"):
        host.submit(uid, box(cpu="2"))
        host.started(uid, "c")
    cpu = host.state.host.cpu
    known = host.state.pods["a"]
    odd = replace(known, pod=replace(known.pod, containers=containers))
    state, effects = recovered(
        host.setup,
        cpu=cpu,
        memory=None,
        saved_devices=None,
        pods={**host.state.pods, "a": odd},
        alive={("a", "c"): 1, ("b", "c"): 2},
        ended={},
        now=5.0,
    )
    assert state.pods["a"].reason == INTERNAL_ERROR
    assert ev.StopContainer("a", "c", 0.0) in effects
    assert state.pods["b"].phase is Phase.RUNNING
    assert state.host.cpu.entries["b"] == cpu.entries["b"]


def test_an_error_in_words_names_its_kind_its_place_and_can_always_be_written():
    try:
        {}["a\ud800\n" * 200]
    except KeyError as error:
        text = unexpected(error)
    assert text.startswith("unexpected KeyError: ")
    assert "(test_failures.py:" in text
    assert "\n" not in text
    assert len(text.encode()) < 600
