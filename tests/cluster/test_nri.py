"""What a real API server makes of the plugin's manifests: annotations, and a taint of its own."""

import asyncio
import json
import uuid

import pytest
from tests.cluster.conftest import rights, wait_until
from tests.packaging.manifests import MANIFESTS

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.nri.taint import KEY, HostTaint
from numalign.wire.kubernetes.api import HOSTS
from numalign.wire.nri import pod_facts

pytestmark = pytest.mark.e2e

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": ""},
    "spec": {
        "initContainers": [
            {"name": "setup", "image": "i", "resources": {"requests": {"cpu": 2}}},
            {"name": "log", "image": "i", "restartPolicy": "Always"},
        ],
        "containers": [
            {
                "name": "db",
                "image": "i",
                "resources": {"limits": {"cpu": "2", "memory": "1Gi", "vendor.com/gpu": "1"}},
            },
            {"name": "web", "image": "i"},
        ],
    },
}


@pytest.fixture(scope="module")
def admission(plane):
    plane.kubectl("apply", "-f", str(MANIFESTS / "nri-admission.yaml"))
    yield plane
    plane.kubectl("delete", "-f", str(MANIFESTS / "nri-admission.yaml"))


def created(plane, **annotations):
    name = f"p-{uuid.uuid4().hex[:8]}"
    meta = {"name": name, "annotations": annotations}
    body = json.dumps({**POD, "metadata": meta})
    plane.kubectl("create", "-n", "default", "-f", "-", stdin=body)
    found = json.loads(plane.kubectl("get", "pod", name, "-n", "default", "-o", "json"))
    plane.kubectl("delete", "pod", name, "-n", "default", "--force", "--grace-period=0")
    return found["metadata"].get("annotations", {})


def test_new_pods_carry_their_containers_and_the_plugin_that_they_need(admission):
    wait_until(
        lambda: "numalign.io/containers" in created(admission), what="the policy to be in force"
    )
    found = created(admission)
    assert json.loads(found["required-plugins.noderesource.dev"]) == ["10-numalign"]
    pod = pod_facts.declared(found["numalign.io/containers"])
    assert [(c.name, c.is_restartable) for c in pod.init_containers] == [
        ("setup", False),
        ("log", True),
    ]
    assert [c.name for c in pod.containers] == ["db", "web"]
    amounts = {name: str(amount) for name, amount in pod.containers[0].requests.items()}
    assert amounts == {"cpu": "2", "memory": "1Gi", "vendor.com/gpu": "1"}


def test_whoever_writes_the_list_himself_is_corrected(admission):
    wait_until(lambda: "numalign.io/containers" in created(admission), what="the policy")
    found = created(admission, **{"numalign.io/containers": "app/db:cpu=64"})
    assert "cpu=64" not in found["numalign.io/containers"]


def test_the_plugins_own_pods_need_no_plugin(admission):
    found = created(admission, **{"numalign.io/run-without-nri": "true"})
    assert "required-plugins.noderesource.dev" not in found


def taints(plane, host):
    spec = json.loads(plane.kubectl("get", "node", host, "-o", "json"))["spec"]
    return {one["key"] for one in spec.get("taints", ())}


def test_the_taint_is_taken_off_when_synchronized_and_comes_back(plane):
    host, other = "nri-host", "nri-other"
    for name in (host, other):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))
        plane.kubectl("taint", "node", name, "other=1:NoSchedule", f"{KEY}:NoSchedule")
    rights(plane, "nri.yaml")
    kubeconfig = plane.account("numalign-system", "numalign-nri", host=host)

    async def work():
        ready = False
        async with ApiServer.connect(kubeconfig) as api:
            task = asyncio.create_task(HostTaint(api, host, lambda: ready).run())
            await asyncio.sleep(1)
            assert KEY in taints(plane, host)
            ready = True
            await asyncio.to_thread(
                wait_until, lambda: KEY not in taints(plane, host), what="the taint to go"
            )
            assert "other" in taints(plane, host)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert KEY in taints(plane, host), "a host whose plugin ends takes nobody"
            # Nothing else of its own host, and nothing of others.
            for name, patch in (
                (host, {"spec": {"taints": []}}),
                (host, {"metadata": {"labels": {"a": "b"}}}),
                (other, {"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}),
            ):
                with pytest.raises(Exception, match="the plugin may change"):
                    await api.patch(HOSTS, name, patch)

    try:
        asyncio.run(work())
    finally:
        for name in (host, other):
            plane.kubectl("delete", "node", name)
