"""No member of a v1.Pod is passed over in silence."""

from pathlib import Path

import pytest
from tests.paths import CHECKOUT
from tests.wire.pods import fields_page

from numalign.wire.pods.fields import TABLE, Care, field_at
from numalign.wire.pods.unheeded import PATHS_MAX, paths_of, refused, told

# Every member of v1.Pod in the OpenAPI document of Kubernetes 1.37.1; those of init containers are
# the same as those of containers.
ALL = (Path(__file__).parent / "pod_fields.txt").read_text().split()


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize("path", ALL)
def test_the_table_says_what_becomes_of_every_member(path):
    assert field_at(path) is not None


def test_every_row_speaks_for_a_member_that_there_is():
    spoken = {field.path for path in ALL if (field := field_at(path)) is not None}
    assert {field.path for field in TABLE} - spoken == {"spec.ephemeralContainers"}


def test_a_refusal_or_a_note_says_why():
    for field in TABLE:
        for treatment in (field.process, field.cri):
            assert treatment.text or treatment.care in {Care.DONE, Care.WRITTEN}, field.path


def test_a_plain_pod_has_nothing_to_be_told():
    document = pod(
        containers=[{"name": "c", "command": ["x"], "resources": {"limits": {"cpu": 1}}}],
        restartPolicy="Never",
    )
    assert paths_of(document) == []


def test_what_the_api_server_adds_to_every_pod_is_not_told():
    document = pod(
        containers=[
            {
                "name": "c",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
            }
        ],
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        serviceAccountName="default",
        enableServiceLinks=True,
        securityContext={},
    )
    document["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    document["status"] = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}
    assert paths_of(document) == []


def test_a_misspelt_member_is_told_with_its_container():
    document = pod(containers=[{"name": "web", "livenesProbe": {"tcpSocket": {"port": 1}}}])
    [line] = told(paths_of(document), is_cri=False)
    assert line == (
        "spec.containers[web].livenesProbe: unknown to Kubernetes 1.37; check the spelling"
    )


def test_a_probe_is_told_where_it_is_not_asked_and_once():
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 5}
    paths = paths_of(pod(initContainers=[{"name": "side", "readinessProbe": probe}]))
    assert paths == ["spec.initContainers[side].readinessProbe"]
    assert told(paths, is_cri=False) == []
    assert len(told(paths, is_cri=True)) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"hostUsers": False},
        {"runtimeClassName": "gvisor"},
        {"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}},
        {"securityContext": {"seLinuxOptions": {"level": "s0"}}},
        {"volumes": [{"name": "v", "nfs": {"server": "a", "path": "/"}}]},
        {"containers": [{"name": "c", "volumeDevices": [{"name": "d", "devicePath": "/dev/x"}]}]},
    ],
)
def test_what_promises_safety_or_data_is_refused_in_every_runtime(spec):
    paths = paths_of(pod(**spec))
    assert refused(paths, is_cri=False)
    assert refused(paths, is_cri=True)


def test_the_token_that_every_pod_of_a_cluster_has_is_told_and_not_refused():
    paths = paths_of(pod(volumes=[{"name": "kube-api-access-x7", "projected": {"sources": [1]}}]))
    assert refused(paths, is_cri=False) == []
    assert "no token" in told(paths, is_cri=False)[0]


def test_as_many_members_as_anybody_would_read_are_kept():
    assert len(paths_of(pod(**{f"x{number}": 1 for number in range(1000)}))) == PATHS_MAX


def test_the_page_says_what_the_table_says():
    page = (CHECKOUT / "docs" / "reference" / "pod-fields.md").read_text()
    assert page == fields_page.text(), "run python -m tests.wire.pods.fields_page"
