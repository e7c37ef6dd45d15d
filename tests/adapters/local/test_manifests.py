"""The directory of manifests: what is new, changed and gone, of pods and of workloads."""

import json

import pytest

from numalign.adapters.local.manifests import Changes, ManifestDirectory

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


def deployment(replicas, command="a", name="web"):
    container = {"name": "c", "command": [command]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


def pod(name):
    return {"kind": "Pod", "metadata": {"name": name}, **TEMPLATE}


@pytest.fixture
def directory(tmp_path):
    return ManifestDirectory(tmp_path, "host")


def put(directory, name, *documents):
    path = directory.root / name
    path.write_text("\n---\n".join(map(json.dumps, documents)))


def names(changes):
    return [manifest.record.metadata.name for manifest in changes.new]


def test_a_scaled_file_brings_or_takes_only_what_changed(directory):
    put(directory, "web.yaml", deployment(2))
    first = directory.changes()
    assert names(first) == ["web-0", "web-1"] and not first.gone
    put(directory, "web.yaml", deployment(3))
    more = directory.changes()
    assert names(more) == ["web-2"] and not more.gone
    put(directory, "web.yaml", deployment(1))
    fewer = directory.changes()
    assert not fewer.new
    assert set(fewer.gone) == {first.new[1].uid, more.new[0].uid}


def test_a_changed_template_is_a_new_set_of_pods(directory):
    put(directory, "web.yaml", deployment(2))
    first = directory.changes()
    put(directory, "web.yaml", deployment(2, "other"))
    changed = directory.changes()
    assert names(changed) == ["web-0", "web-1"]
    assert set(changed.gone) == {manifest.uid for manifest in first.new}
    put(directory, "web.yaml", deployment(2))
    assert [m.uid for m in directory.changes().new] == [m.uid for m in first.new]


def test_other_kinds_are_noted_and_a_file_of_nothing_else_is_a_fault(directory):
    put(directory, "a.yaml", {"kind": "Service"}, pod("p"))
    put(directory, "b.yaml", {"kind": "ConfigMap"})
    found = directory.changes()
    assert names(found) == ["p"]
    assert [note.partition("; ")[0].rpartition(": ")[2] for note in found.notes] == [
        "passed over Service",
    ]
    assert "b.yaml: found only ConfigMap, expected one of Pod" in found.faults[0]
    assert directory.changes() == Changes()


def test_the_second_pod_of_a_name_in_a_file_is_a_fault_and_the_first_runs(directory):
    put(directory, "a.yaml", pod("web-0"), deployment(2))
    found = directory.changes()
    assert names(found) == ["web-0", "web-1"]
    [fault] = found.faults
    assert "pod default/web-0 of Deployment web: the name is taken by the pod before it" in fault


def test_an_empty_file_is_a_fault_and_what_ran_goes_on(directory):
    put(directory, "a.yaml", pod("p"))
    directory.changes()
    (directory.root / "a.yaml").write_text("---\n")
    found = directory.changes()
    assert not found.gone and "found nothing, expected one of Pod" in found.faults[0]
