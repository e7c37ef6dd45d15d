"""A ledger knows every state in which a host may be, whatever the order of what came."""

from itertools import permutations
from random import Random

import pytest
from tests.core.cluster.scheduling.kubelets import Kubelet, a_pod
from tests.core.hosts import GI, machine, settings

from numalign.core.cluster.scheduling import interleavings, ledger
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted

SHAPES = [(1, 1, 0), (2, 1, 0), (3, 2, 0), (4, 1, 0)]


def a_book(policy, scope):
    built = host.build(settings(policy, scope=scope), machine(2, 4, memory=16 * GI))
    kubelet = Kubelet("host", built, {})
    kubelet.publish()
    found = rebuilt(kubelet.published[0].placement, [])
    return ledger.opened(found, [])


def of_every_order(book, pods):
    """The states after all orders, tried one by one, and who is refused in any of them."""
    frame, states, refused = book.frame, [], set()
    for order in permutations(pods):
        state = book.base
        for pod in order:
            state, verdict = verdict_on(frame.host, state, frame.totals, pod)
            if not isinstance(verdict, Admitted):
                refused.add(pod.uid)
        states.append((state.cpu.shared, state.cpu.entries))
    return states, refused


def by_shape(states, pods):
    """What is held, with pods of one shape made alike."""
    shapes = {pod.uid: str(interleavings.class_of(pod)) for pod in pods}
    return {
        (shared, tuple(sorted((shapes[uid], str(held)) for uid, held in entries.items())))
        for shared, entries in states
    }


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(5))
def test_pods_that_come_one_by_one_give_the_states_of_every_order(policy, scope, seed):
    rng = Random(seed)
    book, pods = a_book(policy, scope), []
    for number in range(4):
        pod = a_pod(f"p{number}", rng.choice(SHAPES))
        verdict, expected = ledger.checked(book, pod)
        book = ledger.came(book, pod)
        pods.append(pod)
        states, refused = of_every_order(book, pods)
        if book.outcomes is None:
            assert len(by_shape(states, pods)) > interleavings.STATES_MAX
            return
        found = [(s.cpu.shared, s.cpu.entries) for s in book.states]
        assert by_shape(found, pods) == by_shape(states, pods)
        shapes = {str(interleavings.class_of(p)) for p in pods if p.uid in refused}
        assert {
            str(interleavings.class_of(p)) for p in pods if p.uid in book.outcomes.refused
        } == shapes
        if isinstance(verdict, Admitted):
            after = [(s.cpu.shared, s.cpu.entries) for s in expected]
            assert by_shape(after, pods) == by_shape(found, pods)


def test_if_the_pods_on_their_way_were_gone_who_went_beside_them_would_be_too():
    built = host.build(settings("restricted"), machine(2, 4, memory=16 * GI))
    kubelet = Kubelet("host", built, {})
    first, second = a_pod("first", (2, 1, 0)), a_pod("second", (1, 1, 0))
    kubelet.inbox.append(("came", first))
    kubelet.work(1)
    kubelet.publish()
    book = ledger.opened(rebuilt(kubelet.published[-1].placement, [first]), [])
    book, _ = ledger.went(ledger.came(book, second), first.uid)
    assert [one.uid for one in book.gone] == [first.uid]
    found = ledger.without(book, [second.uid])
    assert (found.gone, found.pending) == ((), ())
    assert [dict(state.pods) for state in found.states] == [{}]
