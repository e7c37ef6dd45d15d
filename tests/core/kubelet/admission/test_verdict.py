"""The verdict about a pod: the managers first, then the totals of the host."""

from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import snapshot

from numalign.core.kubelet.admission.verdict import OutOf, decide, refusal
from numalign.core.kubelet.decisions import Admitted, Breakage, Broken, Reason

SMALL = settings("none", memory=False)


def test_what_the_managers_admit_may_still_be_more_than_the_host_offers():
    host = snapshot(SMALL, machine(), pod("a", container("c", "14500m", "1Gi")))
    after, verdict = decide(host, pod("b", container("c", "600m", "1Gi")))
    assert isinstance(verdict, OutOf)
    assert verdict.reason == "OutOfcpu"
    assert "b" not in after.state.pods
    _, verdict = decide(host, pod("b", container("c", "500m", "1Gi")))
    assert isinstance(verdict, Admitted)


def test_the_managers_are_asked_before_the_totals():
    host = snapshot(settings("none"), machine())
    _, verdict = decide(host, pod("b", container("c", 16, "1Gi")))
    assert refusal(verdict)[0] == Reason.UNEXPECTED.value


def test_a_critical_pod_is_refused_as_unexpected_with_all_that_is_missing():
    host = snapshot(SMALL, machine(), pod("a", container("c", "14500m", "1Gi")))
    _, verdict = decide(host, pod("b", container("c", "600m", "1Gi")), is_critical=True)
    assert verdict.reason == "UnexpectedAdmissionError"
    assert verdict.message.endswith("[(res: cpu, q: 100), ]")


def test_where_the_kubelet_would_break_that_is_what_is_said():
    assert refusal(Broken(Breakage.CRASH, "so")) == ("WouldBreak", "crashes: so")
    assert refusal(Admitted(())) is None


def test_a_decision_leaves_the_snapshot_before_as_it_was():
    host = snapshot(SMALL, machine())
    after, _ = decide(host, pod("a", container("c", 2, "1Gi")))
    assert not host.state.pods
    assert after.names == {"a": "default/a"}
