"""The directory of manifests: what is new, changed and gone, of pods and of workloads."""

import itertools
import json
import os
import threading

import pytest

from numalign.adapters.local.files import UnfitFileError, read_regular
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
    again = directory.changes()
    assert again == Changes(files=again.files)


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


def with_uid(name, uid, command="a"):
    found = pod(name)
    containers = [{"name": "c", "command": [command]}]
    return {**found, "metadata": {"name": name, "uid": uid}, "spec": {"containers": containers}}


def told(changes):
    return {one.name: one.problem for one in changes.files}


def test_more_files_than_the_limit_are_counted_and_those_that_are_taken_stay(directory):
    directory.files_max = 2
    put(directory, "m.yaml", pod("m"))
    put(directory, "n.yaml", pod("n"))
    assert names(directory.changes()) == ["m", "n"]
    put(directory, "a.yaml", pod("a"))
    more = directory.changes()
    assert (more.new, more.gone, more.passed_over) == ((), (), 1)
    (directory.root / "m.yaml").unlink()
    assert names(directory.changes()) == ["a"]


def test_more_pods_than_the_limit_are_one_files_problem_until_there_is_room(directory):
    directory.pods_max = 2
    put(directory, "a.yaml", pod("a"), pod("b"))
    assert names(directory.changes()) == ["a", "b"]
    put(directory, "b.yaml", pod("c"))
    assert "found 3 pods in all manifests together" in told(directory.changes())["b.yaml"]
    put(directory, "a.yaml", pod("a"))
    found = [directory.changes(), directory.changes()]
    assert [name for changes in found for name in names(changes)] == ["c"]
    assert not any(told(found[1]).values())


def test_a_changed_pod_of_one_uid_is_gone_and_new(directory):
    put(directory, "a.yaml", with_uid("a", "u-1"))
    assert [m.uid for m in directory.changes().new] == ["u-1"]
    put(directory, "a.yaml", with_uid("a", "u-1", "other"))
    changed = directory.changes()
    assert changed.gone == ("u-1",)
    assert changed.new[0].record.spec.containers[0].command == ["other"]


def test_a_renamed_file_keeps_the_pod_whose_uid_it_names(directory):
    put(directory, "a.yaml", with_uid("a", "u-1"))
    directory.changes()
    (directory.root / "a.yaml").rename(directory.root / "b.yaml")
    moved = directory.changes()
    assert not moved.gone
    assert [(m.uid, m.source) for m in moved.new] == [("u-1", "file:b.yaml")]


def test_a_uid_belongs_to_one_file_and_its_copy_is_taken_when_that_is_gone(directory):
    put(directory, "a.yaml", with_uid("a", "u-1"))
    directory.changes()
    put(directory, "b.yaml", with_uid("b", "u-1"))
    copied = directory.changes()
    assert not copied.new and "is that of a pod in a.yaml" in told(copied)["b.yaml"]
    (directory.root / "a.yaml").unlink()
    assert names(directory.changes()) == ["b"]


def test_what_is_remembered_goes_only_with_its_file(directory):
    put(directory, "a.yaml", pod("a"))
    put(directory, "b.yaml", pod("b"))
    put(directory, "c.yaml", pod("c"))
    first = {m.source: m for m in directory.changes().new}
    (directory.root / "a.yaml").write_text("{ half of")
    (directory.root / "b.yaml").unlink()
    later = ManifestDirectory(directory.root, "host")
    later.remember(first.values())
    found = later.changes()
    assert found.gone == (first["file:b.yaml"].uid,)
    assert not found.new
    assert found.files[0].pods == (first["file:a.yaml"],) and found.files[0].problem


def test_a_file_that_is_written_while_it_is_read_is_never_taken_half(tmp_path):
    path = tmp_path / "a.yaml"
    versions = [bytes([letter]) * 700_000 for letter in b"ab"]
    path.write_bytes(versions[0])
    ended = threading.Event()

    def rewrite():
        descriptor = os.open(path, os.O_WRONLY)
        for number in itertools.count():
            os.pwrite(descriptor, versions[number % 2], 0)
            if ended.is_set():
                os.close(descriptor)
                return

    writer = threading.Thread(target=rewrite)
    writer.start()
    refused = 0
    try:
        for _ in range(300):
            try:
                data, _ = read_regular(str(path), 1_000_000)
            except UnfitFileError as error:
                assert "changed while it was read" in str(error)
                refused += 1
            else:
                assert len(data) == 700_000
    finally:
        ended.set()
        writer.join()
    assert refused, "nothing was ever written while it was read"


def test_a_change_that_the_files_clock_cannot_show_is_seen_at_the_next_look(directory):
    path = directory.root / "a.yaml"
    put(directory, "a.yaml", deployment(1, "aa"))
    directory.changes()
    before = path.stat()
    put(directory, "a.yaml", deployment(1, "bb"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(directory.changes().new) == 1
