"""A kubelet's host captured from its root directory: what is in the bundle, and what is not."""

import json
from dataclasses import replace

import msgspec
import pytest
from tests.apps.snapshots.hosts import CONFIG, DEVICES, GPU, kubelet_state, make_root, pod, records

from numalign.adapters.sources.bundles import bundle_from_bytes, machine_of, read_bundle
from numalign.adapters.sources.discovery import discover
from numalign.adapters.sources.filetree import DirTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.running import Holding, stand_in
from numalign.apps.snapshots.sources import inputs_in
from numalign.apps.snapshots.this_host import Places, captured
from numalign.apps.snapshots.verdicts import as_data, outcomes
from numalign.core.errors import ConfigError
from numalign.core.kubelet.older_versions import Kubernetes
from numalign.core.kubelet.state import Block
from numalign.core.pod import Qos, qos_class
from numalign.core.settings import Settings, Version
from numalign.core.views.podresources import resources_view
from numalign.wire import bundle
from numalign.wire.bundle import packed
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.pods.running import running_pods

NOW = "2030-01-31T08:00:00Z"
RUNNING = [
    pod("web", "2", "1Gi"),
    pod("db", "4", "2Gi", gpus=1),
    pod("log", resources={"requests": {"cpu": "500m"}}),
]


def captured_from(root, **more):
    found, _ = captured(Places(root=root), created_at=NOW, **more)
    return bundle_from_bytes(packed(found), "host.tar.gz")


def test_the_machine_of_a_bundle_is_the_one_that_was_captured(tmp_path):
    root = make_root(tmp_path)
    assert machine_of(captured_from(root), "x") == read_machine(DirTree(root))
    (tmp_path / "b.tar.gz").write_bytes(packed(captured_from(root)))
    assert discover(str(tmp_path / "b.tar.gz")) == read_machine(DirTree(root))


def test_a_bundle_holds_the_state_files_byte_for_byte_and_no_secret(tmp_path):
    root = make_root(tmp_path, RUNNING)
    found = captured_from(root)
    kubelet = root / "var/lib/kubelet"
    assert found.state["cpu_manager_state"] == (kubelet / "cpu_manager_state").read_bytes()
    assert found.state["memory_manager_state"] == (kubelet / "memory_manager_state").read_bytes()
    device_file = kubelet / "device-plugins" / "kubelet_internal_checkpoint"
    assert found.state["kubelet_internal_checkpoint"] == device_file.read_bytes()
    text = json.dumps({k: v.decode() for k, v in found.files.items()})
    assert "hunter2" not in text
    assert "10.96" not in text
    assert json.loads(found.files[bundle.CONFIG])["maxPods"] == 20


def test_pods_of_the_state_are_not_freed_although_nobody_knows_them(tmp_path):
    found = loaded(inputs_in(captured_from(make_root(tmp_path, RUNNING)), "host"))
    assert found.unknown == {"uid-web", "uid-db"}
    assert found.snapshot.names["uid-web"] == "unknown pod uid-web"
    assert any("state files alone" in note for note in found.notes)
    assert any("NUMA nodes of 3 free devices" in note for note in found.notes)
    # Node 0 is full: two CPUs are reserved and six are held. Were they freed, both would fit.
    asked = records(pod("new", "6", "1Gi"), pod("small", "4", "1Gi"))
    answers = [as_data(o) for o in outcomes(found.snapshot, asked)]
    assert [a["admitted"] for a in answers] == [True, False]
    assert answers[1]["reason"] == "TopologyAffinityError"
    before = found.snapshot.state.cpu.entries["uid-db"]
    assert before["main"].bit_count() == 4


def test_known_pods_keep_their_names_and_requests(tmp_path):
    pods = running_pods(
        json.dumps({"kind": "PodList", "apiVersion": "v1", "items": RUNNING}).encode(), "pods"
    )
    root = make_root(tmp_path, RUNNING)
    found = loaded(inputs_in(captured_from(root, pods=pods), "host"))
    assert found.unknown == frozenset()
    assert set(found.snapshot.names.values()) == {"default/web", "default/db", "default/log"}
    assert not any("totals" in note for note in found.notes)


def test_logs_name_the_pods(tmp_path):
    root = make_root(tmp_path, RUNNING)
    (root / "var/log/pods/default_web_uid-web/main").mkdir(parents=True)
    found = loaded(inputs_in(captured_from(root), "host"))
    assert found.snapshot.names["uid-web"] == "default/web"
    assert found.unknown == {"uid-web", "uid-db"}


def test_static_manifests_are_found_in_the_state_by_what_they_ask_for(tmp_path):
    root = make_root(tmp_path, RUNNING)
    manifests = root / "etc/kubernetes/manifests"
    manifests.mkdir(parents=True)
    for item in [*RUNNING, pod("away", "3", "3Gi")]:
        bare = {**item, "metadata": {"name": item["metadata"]["name"], "namespace": "default"}}
        (manifests / f"{item['metadata']['name']}.yaml").write_text(json.dumps(bare))
    (manifests / "broken.yaml").write_text("kind: [")
    found = loaded(inputs_in(captured_from(root), "host"))
    assert found.unknown == frozenset()
    pods = found.snapshot.state.pods
    assert {uid: p.name for uid, p in pods.items()} == {
        "uid-web": "web",
        "uid-db": "db",
        "default/log": "log",
    }
    assert any("broken.yaml" in note for note in found.notes)
    assert any("default/away holds nothing" in note for note in found.notes)


def with_pod_resources(root, view):
    found = captured_from(root)
    files = {**found.files, bundle.POD_RESOURCES: bundle.pod_resources(view)}
    return bundle_from_bytes(packed(bundle.Bundle(found.about, files)), "x")


def test_pod_resources_name_pods_and_place_free_devices(tmp_path):
    root = make_root(tmp_path, RUNNING)
    view = resources_view(*kubelet_state(RUNNING))
    found = loaded(inputs_in(with_pod_resources(root, view), "host"))
    assert found.snapshot.names["uid-web"] == "default/web"
    assert found.snapshot.names["uid-db"] == "default/db"
    assert not any("disagree" in note or "NUMA nodes" in note for note in found.notes)
    offered = found.snapshot.state.devices.resources[GPU]
    assert dict(offered.nodes_of) == {d.id: d.nodes for d in DEVICES}
    assert "default/log" in found.snapshot.state.pods  # counts as a pod, asks for nothing known


def test_devices_that_only_the_api_knows_count_too(tmp_path):
    """Two plugins that register at once make the kubelet write its older view last."""
    root = make_root(tmp_path, RUNNING)
    path = root / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    file = device_checkpoint.decode(path.read_bytes())
    path.write_bytes(device_checkpoint.encode(replace(file, registered={GPU: ()})))
    found = loaded(
        inputs_in(with_pod_resources(root, resources_view(*kubelet_state(RUNNING))), "host")
    )
    assert len(found.snapshot.state.devices.resources[GPU].ids) == len(DEVICES)
    [answer] = outcomes(found.snapshot, records(pod("next", "1", "1Gi", gpus=1)))
    assert as_data(answer)["admitted"]


def test_a_disagreement_of_pod_resources_and_files_is_told(tmp_path):
    root = make_root(tmp_path, RUNNING)
    view = resources_view(*kubelet_state([*RUNNING, pod("late", "2", "1Gi")]))
    found = loaded(inputs_in(with_pod_resources(root, view), "host"))
    [note] = [note for note in found.notes if "disagree" in note]
    assert "default/late" in note
    assert {"uid-web", "uid-db"} <= found.snapshot.state.pods.keys()


@pytest.mark.parametrize("left", [0, 1])
def test_what_pods_that_are_gone_still_hold_in_the_files_is_free_for_the_next(tmp_path, left):
    """The kubelet frees memory and devices at its next admission, not before."""
    root = make_root(tmp_path, RUNNING)
    view = resources_view(*kubelet_state(RUNNING[:left]))
    found = loaded(inputs_in(with_pod_resources(root, view), "host"))
    assert set(found.snapshot.state.pods) == ({"uid-web"} if left else set())
    assert any("PodResources does not list" in note for note in found.notes)
    [answer] = outcomes(found.snapshot, records(pod("next", "2", "1Gi", gpus=2)))
    assert as_data(answer)["admitted"]


def test_a_pod_that_was_made_again_is_told_from_the_one_before(tmp_path):
    """Both have one name, and the files still know both."""
    again = pod("web", "4", "1Gi", uid="uid-web-2")
    root = make_root(tmp_path, [RUNNING[0], again])
    for uid in ("uid-web", "uid-web-2"):
        (root / f"var/log/pods/default_web_{uid}/main").mkdir(parents=True)
    view = resources_view(*kubelet_state([RUNNING[0], again]))
    view = replace(view, pods=tuple(p for p in view.pods if len(p.apps[0].cpus) == 4))
    found = loaded(inputs_in(with_pod_resources(root, view), "host"))
    assert set(found.snapshot.state.pods) == {"uid-web-2"}


def test_flags_of_the_running_kubelet_win_over_its_file(tmp_path):
    root = make_root(tmp_path)
    process = root / "proc/4711"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    words = ["/usr/bin/kubelet", "--config=/etc/k.yaml", "--topology-manager-policy", "restricted"]
    words += ["--feature-gates=CPUManagerPolicyAlphaOptions=true", "--max-pods=7", "--v=2"]
    (process / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (root / "etc").mkdir()
    (root / "etc/k.yaml").write_text(json.dumps(CONFIG))
    found = loaded(inputs_in(captured_from(root), "host"))
    assert found.config.topology_policy == "restricted"
    assert found.config.feature_gates == {"CPUManagerPolicyAlphaOptions": True}
    assert found.snapshot.totals["pods"] == 7


def test_the_form_of_the_state_tells_the_version(tmp_path):
    root = make_root(tmp_path, RUNNING, Version.V1_37)
    assert captured_from(root).kubernetes.rules is Version.V1_37
    assert captured_from(root, kubernetes=Kubernetes(33)).about.kubernetes == "1.33"


def test_an_unpacked_bundle_reads_the_same(tmp_path):
    root = make_root(tmp_path / "root", RUNNING)
    found = captured_from(root)
    directory = tmp_path / "unpacked"
    for path, data in found.files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)
    (directory / bundle.ABOUT).write_bytes(bundle.document(msgspec.to_builtins(found.about)))
    assert read_bundle(directory) == found
    assert discover(str(directory)) == discover(None, root=root)


def test_a_host_without_a_kubelet_is_captured_with_a_note(tmp_path):
    root = make_root(tmp_path)
    for path in (root / "var/lib/kubelet").rglob("*"):
        if path.is_file():
            path.unlink()
    found = captured_from(root)
    assert bundle.CONFIG not in found.files
    assert any("no kubelet configuration" in note for note in found.about.notes)


def test_a_configuration_that_is_none_is_refused(tmp_path):
    root = make_root(tmp_path)
    (root / "var/lib/kubelet/config.yaml").write_text("kind: Pod\n")
    with pytest.raises(ConfigError, match="found no KubeletConfiguration"):
        captured_from(root)


def test_a_stand_in_asks_for_what_it_holds():
    held = {
        "init": Holding(cpus=0b1111, devices={GPU: ("g0",)}),
        "main": Holding(cpus=0b0011, memory=(Block((0,), "memory", 1 << 30),)),
        "side": Holding(cpus=0b110000, devices={GPU: ("g1", "g2")}),
    }
    found = stand_in("u", held, "ns/name")
    assert (found.namespace, found.name) == ("ns", "name")
    assert [c.name for c in found.init_containers] == ["init"]
    assert [c.name for c in found.containers] == ["main", "side"]
    assert {k: str(v) for k, v in found.containers[0].requests.items()} == {
        "cpu": "2",
        "memory": "1Gi",
    }
    assert str(found.containers[1].limits[GPU]) == "2"
    assert qos_class(found, Settings()) is Qos.GUARANTEED
    whole = Holding(cpus=0b1111, memory=(Block((0,), "memory", 2 << 30),))
    found = stand_in("u", held, None, whole)
    assert {k: str(v) for k, v in found.requests.items()} == {"cpu": "4", "memory": "2Gi"}
    assert found.name == "unknown pod u"
