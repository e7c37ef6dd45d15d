"""CPUs that go offline under running pods: reported, kept or ended by choice, never given."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds, starts

from numalign.apps.agent import events as ev
from numalign.apps.agent.steps.host_changes import offline_problems
from numalign.core.values.sets import mask_of, parse_list

ALL = parse_list("0-7")


def running(**changes):
    """A host of 8 CPUs, two of them reserved, with a pod that owns two and one in the pool."""
    host = Host()
    host.setup = replace(host.setup, **changes)
    host.submit("own", box(cpu="2"))
    host.submit("pool", box())
    host.started("own", "c")
    host.started("pool", "c")
    own = host.state.host.cpu.entries["own"]["c"]
    return host, own, own & -own  # and the first of its own


def pinned(effects):
    return {p.uid: p.cpus for e in effects if isinstance(e, ev.PinContainers) for p in e.pins}


def test_a_pod_keeps_the_rest_of_its_cpus_and_that_is_told():
    host, own, gone = running()
    effects = host.event(ev.CpusOnline(ALL & ~gone))
    assert pinned(effects) == {"own": own & ~gone, "pool": host.state.host.cpu.shared}
    assert [e.note.NAME for e in effects if isinstance(e, ev.Publish)] == ["cpus_offline"]
    told = offline_problems(host.state)
    assert len(told) == 2 and "container c of pod default/own has" in told[1]
    assert host.state.host.cpu.entries["own"]["c"] == own, "it has them again when they are back"


def test_cpus_that_come_back_are_the_pods_again_and_the_problem_is_over():
    host, own, gone = running()
    host.event(ev.CpusOnline(ALL & ~gone))
    effects = host.event(ev.CpusOnline(ALL))
    assert pinned(effects)["own"] == own
    assert offline_problems(host.state) == []
    assert host.event(ev.CpusOnline(ALL)) == []


def test_by_choice_a_pod_that_loses_a_cpu_of_its_own_is_ended():
    host, _, gone = running(ends_without_cpus=True)
    effects = host.event(ev.CpusOnline(ALL & ~gone))
    assert [e.uid for e in effects if isinstance(e, ev.StopContainer)] == ["own"]
    failed = host.state.pods["own"]
    assert (failed.phase, failed.reason) == ("Failed", "CpusOffline")
    host.exited("own", "c", 143)
    assert not host.state.host.cpu.entries
    assert host.state.pods["pool"].phase == "Running"


def test_a_pod_that_has_nothing_left_is_ended_anyway():
    host, own, _ = running()
    effects = host.event(ev.CpusOnline(ALL & ~own))
    assert [e.uid for e in effects if isinstance(e, ev.StopContainer)] == ["own"]


def test_the_pool_and_helpers_leave_a_cpu_that_went_offline():
    host, _, _ = running()
    gone = 1 << 7
    assert host.state.host.cpu.shared & gone
    effects = host.event(ev.CpusOnline(ALL & ~gone))
    assert pinned(effects)["pool"] == host.state.host.cpu.shared & ~gone
    [helpers] = [e.cpus for e in effects if isinstance(e, ev.PinHelpers)]
    assert not helpers & gone


def test_no_cpu_that_is_offline_is_given_and_none_is_lost():
    host = Host()
    host.event(ev.CpusOnline(ALL & ~parse_list("4-5")))
    effects = host.submit("a", box(cpu="4"))
    assert starts(effects) == ["c"]
    assert host.state.host.cpu.entries["a"]["c"] == mask_of([2, 3, 6, 7])
    refused = host.submit("b", box(cpu="2"))
    assert "StartContainer" not in kinds(refused)
    assert host.state.pods["b"].phase == "Failed"
    assert host.state.host.cpu.shared == mask_of([0, 1, 4, 5])
