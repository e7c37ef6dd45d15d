"""The search for changes: how they are sorted, counted and stopped."""

import pytest
from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import snapshot

from numalign.core.explain.explain import asked, explain
from numalign.core.kubelet.decisions import Admitted
from numalign.core.what_if.search import Change, Kind, Search, StoppedError, freed_of

REFUSED = pod("new", container("c", 9, "1Gi"))
ADMITTED = Admitted(())


def searched(**options):
    running = pod("a", container("c", 4, "1Gi"))
    case = asked(snapshot(settings("single-numa-node"), machine(), running), REFUSED)
    return Search(case, explain(case), **options)


def test_small_changes_come_before_large_ones_and_the_pod_before_the_host():
    def change(kind, text="", **facts):
        return Change(kind, text, REFUSED, ADMITTED, **facts)

    host, drained = change(Kind.HOST), change(Kind.HOST, drained=True)
    more, less = change(Kind.REQUEST, size=2), change(Kind.REQUEST, size=1)
    hurting = change(Kind.HOST, refused_again=("x",))
    found = sorted([drained, hurting, host, more, less], key=lambda one: one.rank)
    assert found == [less, more, host, hurting, drained]


def test_what_a_pod_was_made_for_is_given_up_last_and_others_leave_before_the_host_changes():
    def change(kind, edits=(), **facts):
        return Change(kind, "", REFUSED, ADMITTED, edits=edits, **facts)

    none = change(Kind.REQUEST, (("c", "nvidia.com/gpu", "2", "0"),))
    one = change(Kind.REQUEST, (("c", "nvidia.com/gpu", "2", "1"),))
    leave, policy, drain = change(Kind.LEAVE), change(Kind.HOST, size=1), change(Kind.HOST, size=3)
    found = sorted([none, drain, policy, leave, one], key=lambda item: item.rank)
    assert found == [one, leave, policy, drain, none]


def test_a_search_asks_no_more_often_than_allowed():
    search = searched(runs_max=2)
    assert search.admits(REFUSED) is None
    assert isinstance(search.admits(pod("new", container("c", 4, "1Gi"))), Admitted)
    with pytest.raises(StoppedError):
        search.admits(REFUSED)
    assert search.is_stopped
    assert search.runs == 2


def test_the_caller_may_stop_a_search():
    search = searched(going=lambda _stage, runs: runs < 1)
    search.count()
    with pytest.raises(StoppedError):
        search.count()


def test_pods_that_leave_give_back_what_they_held():
    case = searched().case
    after = freed_of(case.host, case.before, ("a",))
    assert after.cpu.shared == case.host.cpu_topology.all
    assert not after.pods
