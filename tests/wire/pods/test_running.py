"""Running pods from what kubectl prints: reduced, without those that have ended."""

import json

import msgspec
import pytest

from numalign.core.errors import WireError
from numalign.wire.pods.running import running_pods


def pod(name, phase="Running", **metadata):
    return {
        "metadata": {"name": name, "namespace": "n", "uid": f"u-{name}", **metadata},
        "spec": {
            "nodeName": "worker-3",
            "containers": [
                {
                    "name": "c",
                    "image": "registry/hunter2",
                    "env": [{"name": "P", "value": "hunter2"}],
                    "command": ["hunter2"],
                    "resources": {"limits": {"cpu": "1"}},
                }
            ],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        },
        "status": {"phase": phase, "qosClass": "Burstable"},
    }


def listed(*pods, kind="PodList"):
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": list(pods)}).encode()


def test_only_what_placement_needs_is_kept():
    [found] = running_pods(listed(pod("a", annotations={"x": "hunter2"})), "f")
    text = msgspec.json.encode(found)
    assert b"hunter2" not in text
    assert b"worker-3" not in text
    assert found.metadata.uid == "u-a"
    assert found.spec.containers[0].resources.limits == {"cpu": "1"}
    assert found.spec.initContainers[0].restartPolicy == "Always"
    assert found.status.qosClass == "Burstable"


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_pods_that_have_ended_are_left_out(kind):
    items = [pod("a"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d", "Pending")]
    if kind == "List":
        items = [{"apiVersion": "v1", "kind": "Pod", **item} for item in items]
    found = running_pods(listed(*items, kind=kind), "f")
    assert [r.metadata.name for r in found] == ["a", "d"]


def test_a_mirror_pod_has_the_uid_of_its_static_pod():
    mirror = pod("etcd-worker-3", annotations={"kubernetes.io/config.hash": "abc123"})
    [found] = running_pods(listed(mirror), "f")
    assert found.metadata.uid == "abc123"


def test_manifests_are_pods_too():
    manifest = {"apiVersion": "v1", "kind": "Pod", **pod("a")}
    assert [r.metadata.name for r in running_pods(json.dumps(manifest).encode(), "f")] == ["a"]


@pytest.mark.parametrize(
    "data", [b"{", listed({"kind": "Secret"}, kind="List"), listed("x"), b"kind: Service"]
)
def test_other_things_are_one_clear_error(data):
    with pytest.raises(WireError, match=r"^f: "):
        running_pods(data, "f")
