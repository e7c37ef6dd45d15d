"""Which pods a published topology counts, by its fingerprint."""

from tests.core.cluster.scheduling.kubelets import a_pod

from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.zones import Attribute, HostTopology
from numalign.core.cluster.scheduling.confirm import SURE, at_once, by_fingerprint

PODS = {uid: a_pod(uid, (1, 1, 0)) for uid in "abc"}


def topology(*uids):
    text = fingerprint([("default", uid) for uid in uids])
    return HostTopology("w", attributes=(Attribute("nodeTopologyPodsFingerprint", text),))


def test_the_fingerprint_tells_how_many_of_the_last_pods_are_counted():
    assert by_fingerprint(topology("a", "b"), PODS, {"a": SURE}) == {"a": SURE, "b": SURE, "c": 0}
    assert by_fingerprint(topology("a", "b", "c"), PODS, {}) == dict.fromkeys("abc", SURE)


def test_a_fingerprint_of_other_pods_confirms_nobody():
    assert by_fingerprint(topology("a", "x"), PODS, {"a": SURE}) == {"a": SURE, "b": 0, "c": 0}


def test_without_a_fingerprint_a_pod_is_believed_the_second_time():
    bare = HostTopology("w")
    once = by_fingerprint(bare, PODS, {})
    assert set(once.values()) == {SURE - 1}
    assert set(by_fingerprint(bare, PODS, once).values()) == {SURE}
    assert at_once(bare, PODS, once) == once
