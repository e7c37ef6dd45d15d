"""What a recording tree has written down gives the same machine again."""

import pytest
from tests.adapters.sources.captures import small_machine, sysfs_files
from tests.adapters.sources.shared_machines import captures, needs_machines

from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.recording_tree import RecordingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.adapters.sources.tartree import tar_tree


def assert_same_again(tree):
    recording = RecordingTree(tree)
    machine = read_machine(recording, "m")
    assert read_machine(MappingTree(recording.files()), "m") == machine
    return recording


def test_a_small_machine_is_the_same_again_without_what_nobody_read():
    files = {**sysfs_files(small_machine()), "etc/passwd": "root", "proc/1/environ": "hunter2"}
    written = assert_same_again(MappingTree(files)).files()
    assert all(any(f"{file}/".startswith(f"{path}/") for file in files) for path in written)
    assert not {"etc/passwd", "proc/1/environ"} & set(written)


def test_names_without_content_are_kept_as_empty_files():
    tree = RecordingTree(MappingTree({"a/b/c": "1", "a/d": "2", "a/e/f": "3"}))
    assert tree.names("a") == ["b", "d", "e"]
    assert tree.read("a/b/c") == "1"
    assert tree.exists("a/e/f")
    assert tree.read("a/none") is None
    assert tree.files() == {"a/b/c": "1", "a/d": "", "a/e/f": ""}
    assert tree.source == "mapping"


@needs_machines
@pytest.mark.parametrize("path", captures()[::8], ids=lambda path: path.name)
def test_captured_machines_are_the_same_again(path):
    assert_same_again(tar_tree(path.read_bytes(), path.name))
