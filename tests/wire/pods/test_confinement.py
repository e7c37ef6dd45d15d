"""Who a process may be and what it may do, by what its manifest says and who asked for it."""

import pytest

from numalign.core.asker import Abilities, Asker
from numalign.wire.pods.confinement import CAPABILITIES, Confinement, confinement
from numalign.wire.pods.manifests import record_of

ALL = (1 << len(CAPABILITIES)) - 1
ROOT = Abilities(Asker(0, 0, (0,)), ALL, has_mounts=True)
USER = Abilities(Asker(1000, 1000, (27,)))
ALICE = Asker(1000, 1000, (27, 100))


def confined(own=None, pods=None, *, asker=None, abilities=ROOT, **more):
    container = {"name": "c", **({"securityContext": own} if own else {}), **more}
    spec = {"containers": [container], **({"securityContext": pods} if pods else {})}
    record = record_of({"metadata": {"name": "a"}, "spec": spec}, "test")
    return confinement(record.spec, record.spec.containers[0], asker, abilities)


def test_a_plain_process_of_the_agents_own_user_is_left_as_it_is():
    assert confined() == (Confinement(), [])
    assert confined(abilities=USER) == (Confinement(), [])


def test_a_process_is_who_asked_with_all_of_its_groups():
    found, faults = confined(asker=ALICE)
    assert (found.user, faults) == ((1000, 1000, (27, 100)), [])


def test_the_groups_of_who_asked_do_not_go_to_another_user():
    found, faults = confined({"runAsUser": 5}, {"supplementalGroups": [9]})
    assert (found.user, faults) == ((5, 5, (9,)), [])


def test_what_a_container_says_counts_before_what_its_pod_says():
    found, _ = confined({"runAsUser": 7}, {"runAsUser": 5, "runAsGroup": 6})
    assert found.user == (7, 6, ())


@pytest.mark.parametrize(
    ("own", "pods"),
    [
        ({"runAsUser": 0}, None),
        ({"runAsUser": 1001, "runAsGroup": 1000}, None),
        ({"runAsGroup": 0}, None),
        (None, {"supplementalGroups": [0]}),
        (None, {"fsGroup": 5}),
        ({"privileged": True}, None),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, None),
    ],
)
def test_only_root_may_ask_for_more_than_it_has(own, pods):
    assert confined(own, pods)[1] == []
    assert confined(own, pods, asker=ALICE)[1]
    assert confined(own, pods, abilities=USER)[1]


def test_groups_of_its_own_anybody_may_ask_for():
    context = {"supplementalGroups": [27], "fsGroup": 100, "runAsGroup": 27}
    assert confined(None, context, asker=ALICE)[1] == []


@pytest.mark.parametrize(
    ("own", "asker", "is_refused"),
    [
        ({"runAsNonRoot": True}, None, True),
        ({"runAsNonRoot": True, "runAsUser": 0}, None, True),
        ({"runAsNonRoot": True, "runAsUser": 5}, None, False),
        ({"runAsNonRoot": True}, ALICE, False),
    ],
)
def test_who_must_not_be_root_is_not(own, asker, is_refused):
    assert bool(confined(own, asker=asker)[1]) is is_refused


def test_dropped_capabilities_leave_the_bounding_set_and_added_ones_stay():
    both = {"capabilities": {"drop": ["all"], "add": ["cap_chown"]}}
    assert confined(both)[0].bounding == 1
    assert confined(both)[0].ambient == 0, "root has it anyway"
    assert confined({**both, "runAsUser": 5})[0].ambient == 1
    assert confined({"capabilities": {"drop": ["CHOWN"]}})[0].bounding == ALL & ~1


def test_a_capability_that_the_agent_lacks_cannot_be_given():
    poor = Abilities(Asker(0, 0), ALL & ~1, has_mounts=True)
    assert "does not have" in confined({"capabilities": {"add": ["CHOWN"]}}, abilities=poor)[1][0]


def test_without_root_a_drop_forbids_to_gain_any():
    found, faults = confined({"capabilities": {"drop": ["ALL"]}}, abilities=USER)
    assert (found.no_new_privileges, faults) == (True, [])


@pytest.mark.parametrize(
    "more",
    [
        {"own": {"readOnlyRootFilesystem": True}},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ],
)
def test_without_root_nothing_is_mounted_so_it_is_refused(more):
    assert confined(**more)[1] == []
    assert "start it as root" in confined(**more, abilities=USER)[1][0]


@pytest.mark.parametrize("kind", ["RuntimeDefault", "Localhost"])
def test_a_profile_of_system_calls_is_refused(kind):
    assert confined({"seccompProfile": {"type": kind}})[1]
    assert confined(None, {"seccompProfile": {"type": kind}})[1]
    assert not confined({"seccompProfile": {"type": "Unconfined"}})[1]


def test_somebody_with_volumes_cannot_gain_rights():
    mounts = [{"name": "v", "mountPath": "/etc"}]
    assert confined(asker=ALICE, volumeMounts=mounts)[0].no_new_privileges
    assert not confined(volumeMounts=mounts)[0].no_new_privileges
