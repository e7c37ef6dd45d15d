"""The exporter as a process with its own account, against a real API server."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
import yaml
from tests.cluster import work
from tests.cluster.conftest import rights
from tests.cluster.fleet import HostPlan
from tests.cluster.processes import running
from tests.cluster.served_host import ServedHost
from tests.packaging.manifests import NAMESPACE

from numalign.core.values.sets import CpuSet
from numalign.wire.kubelet.config import document_of
from numalign.wire.kubernetes import nrt
from numalign.wire.pods.running import known_pod

pytestmark = pytest.mark.e2e
HOST = "export-host"
SHAPE = "2s:1n:8c:1t,mem=8Gi"


def read_yaml(text):
    return nrt.read(msgspec.json.encode(yaml.safe_load(text)))


@pytest.fixture
def host(plane, short_path):
    """A host with a Node object, whose socket answers."""
    found = ServedHost(HostPlan(HOST, SHAPE), short_path)
    plane.apply(json.dumps(found.host.node()))
    with found.served():
        yield found
    plane.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    plane.kubectl("delete", "node", HOST)
    plane.kubectl("delete", "noderesourcetopology", HOST, "--ignore-not-found")


@pytest.fixture
def account(plane, host):
    """The kubeconfig of the manifest's account, as a pod on this host would have it."""
    rights(plane, "exporter.yaml")
    return plane.account(NAMESPACE, "numalign-exporter", host=host.name)


def bound(plane, name, cpu="2"):
    """A pod of the API server that is bound to the host."""
    plane.apply(work.pod(name, HOST, cpu=cpu))
    return known_pod(plane.kubectl("get", "pod", name, "-o", "json").encode()).pod


def published(plane):
    try:
        text = plane.kubectl("get", "noderesourcetopology", HOST, "-o", "json")
    except RuntimeError:
        return None
    return nrt.read(text.encode())


def holders(plane):
    found = published(plane)
    if found is None:
        return None
    return {p.name: str(CpuSet(p.containers[0].cpus)) for p in found.topology.placement.pods}


def test_it_publishes_follows_changes_and_writes_nothing_needless(
    plane, host, account, tmp_path, until
):
    host.admit(bound(plane, "first"))
    arguments = ["export", f"--kubeconfig={account}", "--interval=2", *host.options]
    with running(tmp_path, *arguments) as exporter:
        until(lambda: holders(plane) == {"first": "1-2"}, what=exporter.log)
        until(lambda: exporter.problems == [])
        expected = host.host.topology()
        assert published(plane).topology == expected
        owner = json.loads(plane.kubectl("get", "noderesourcetopology", HOST, "-o", "json"))
        assert owner["metadata"]["ownerReferences"][0]["kind"] == "Node"

        before = published(plane).resource_version
        scans = exporter.metric('numalign_export_scans_total{result="ok"}')
        until(lambda: exporter.metric('numalign_export_scans_total{result="ok"}') >= scans + 2)
        assert published(plane).resource_version == before
        assert exporter.metric('numalign_export_publishes_total{result="written"}') == 1

        second = bound(plane, "second", cpu="3")
        host.admit(second)
        until(lambda: holders(plane) == {"first": "1-2", "second": "3-5"}, what=exporter.log)
        host.end(second.uid)
        plane.kubectl("delete", "pod", "second", "--force", "--grace-period=0")
        until(lambda: holders(plane) == {"first": "1-2"}, what=exporter.log)


def test_a_change_of_somebody_else_is_put_right(plane, host, account, tmp_path, until):
    with running(
        tmp_path, "export", f"--kubeconfig={account}", "--interval=1", *host.options
    ) as exporter:
        until(lambda: published(plane) is not None, what=exporter.log)
        plane.kubectl("delete", "noderesourcetopology", HOST)
        until(lambda: published(plane) is not None, what=exporter.log)


def test_it_survives_a_restart_of_the_api_server(plane, host, account, tmp_path, until):
    with running(
        tmp_path, "export", f"--kubeconfig={account}", "--interval=1", *host.options
    ) as exporter:
        until(lambda: published(plane) is not None, what=exporter.log)
        before = published(plane).resource_version
        plane.stop_api_server()
        until(lambda: "does not answer" in exporter.log)
        plane.start_api_server()
        assert published(plane).resource_version == before
        host.admit(bound(plane, "after"))
        until(lambda: holders(plane) == {"after": "1-2"}, 60, what=exporter.log)
        until(lambda: exporter.problems == [])


def test_the_account_may_write_its_own_host_only(plane, host, account, short_path):
    other = ServedHost(HostPlan("another-host", SHAPE), short_path / "other")
    with other.served():
        done = oneshot(f"--kubeconfig={account}", *other.options)
    assert done.returncode == 1
    assert "an exporter may write the NodeResourceTopology of its own host only" in done.stderr
    assert oneshot(f"--kubeconfig={account}", *host.options).returncode == 0


def oneshot(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "numalign", "export", "--oneshot", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_leaves_the_object_of_another_exporter_alone_until_told(plane, host, account):
    other = {**nrt.body(host.host.topology()), "zones": []}
    text = json.dumps(other)
    plane.kubectl("apply", "--server-side", "--field-manager=nfd", "-f", "-", stdin=text)
    refused = oneshot(f"--kubeconfig={account}", *host.options)
    assert refused.returncode == 1
    assert "belongs to another exporter" in refused.stderr
    assert "--take-over" in refused.stderr
    assert published(plane).topology.zones == ()
    assert oneshot(f"--kubeconfig={account}", "--take-over", *host.options).returncode == 0
    assert len(published(plane).topology.zones) == 2


def test_without_the_definition_or_rights_it_says_what_to_do(plane, host):
    plane.kubectl("create", "serviceaccount", "nobody", "-n", NAMESPACE)
    nobody = plane.account(NAMESPACE, "nobody")
    done = oneshot(f"--kubeconfig={nobody}", *host.options)
    assert done.returncode == 1
    assert "forbidden" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_prints_instead_of_publishing_without_any_cluster(host):
    done = oneshot("--no-publish", *host.options)
    assert done.returncode == 0, done.stderr
    found = read_yaml(done.stdout.encode())
    assert found.topology == host.host.topology()


def test_our_agent_can_be_asked_as_well_as_a_kubelet(tmp_path, short_path, until):
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(document_of(HostPlan("a", SHAPE).config())))
    pods = tmp_path / "pods"
    pods.mkdir()
    manifest = json.loads(work.pod("web", cpu="3"))
    manifest["spec"]["containers"][0]["command"] = ["sleep", "60"]
    (pods / "web.yaml").write_text(json.dumps(manifest))
    state = short_path / "state"
    options = [
        "--runtime=none",
        f"--config={config}",
        f"--pods={pods}",
        f"--machine={SHAPE}",
        f"--state-dir={state}",
    ]
    with running(tmp_path, "agent", *options):
        socket = state / "pod-resources" / "kubelet.sock"
        until(socket.exists)

        def published():
            done = oneshot(
                "--no-publish",
                "--host-name=a",
                f"--machine={SHAPE}",
                f"--pod-resources={socket}",
                f"--kubelet-config={config}",
                f"--state={state}",
            )
            assert done.returncode == 0, done.stderr
            return read_yaml(done.stdout.encode()).topology

        until(lambda: published().placement.pods)
        found = published()
    (pod,) = found.placement.pods
    assert CpuSet(pod.containers[0].cpus) == CpuSet.parse("1-3")
    assert CpuSet(found.placement.shared_cpus) == CpuSet.parse("0,4-15")
    assert found.zones[0].resources[0].available.value() == 4
