"""One word leads to a machine: the host, a path, an example or a synthetic text."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.adapters.sources.captures import (
    PACKERS,
    small_machine,
    sysfs_files,
    tar_bytes,
    write_tree,
)
from tests.adapters.sources.test_broken_captures import JSON, XML
from tests.paths import DOCS

from numalign.adapters.sources.discovery import discover
from numalign.core.errors import DiscoveryError
from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.machine.machine import Machine
from numalign.wire.machine.machine_yaml import dump, to_json

FILES = sysfs_files(small_machine())


def _same(machine: Machine, name: str) -> None:
    assert machine == replace(small_machine(), name=name)


def test_the_host_is_what_the_root_shows(tmp_path: Path) -> None:
    write_tree(tmp_path, FILES | {"proc/sys/kernel/hostname": "worker-1\n"})
    _same(discover(None, root=tmp_path), "worker-1")
    _same(discover("host", root=tmp_path), "worker-1")


def test_a_directory_may_hold_the_machine_one_folder_down(tmp_path: Path) -> None:
    write_tree(tmp_path / "capture" / "worker-2", FILES)
    _same(discover(str(tmp_path / "capture" / "worker-2")), "worker-2")
    _same(discover(str(tmp_path / "capture")), "capture")


@pytest.mark.parametrize("packer", PACKERS)
def test_a_capture_is_recognised_whatever_its_name(packer: str, tmp_path: Path) -> None:
    for name in (f"worker-3.tar{packer}", "worker-3"):
        path = tmp_path / name
        path.write_bytes(tar_bytes(FILES, prefix="x/", packer=packer))
        _same(discover(str(path)), "worker-3")


CONTENTS = {
    "export.xml": XML,
    "export.xml.gz": gzip.compress(XML),
    "spec.json": JSON,
    "machine.json": to_json(small_machine()).encode(),
    "machine.yaml": dump(small_machine()).encode(),
    "with-a-mark.yaml": b"\xef\xbb\xbf" + dump(small_machine()).encode(),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENTS[name])
    machine = discover(str(path))
    path.rename(tmp_path / "renamed")
    assert replace(discover(str(tmp_path / "renamed")), name=machine.name) == machine


def test_files_are_named_after_themselves_unless_they_tell(tmp_path: Path) -> None:
    for name, data in CONTENTS.items():
        (tmp_path / name).write_bytes(data)
    assert discover(str(tmp_path / "export.xml.gz")).name == "export"
    assert discover(str(tmp_path / "spec.json")).name == "spec"
    assert discover(str(tmp_path / "machine.yaml")).name == small_machine().name


def test_a_file_of_an_unprintable_name_is_a_machine_of_a_printable_one(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.tar")
    path.write_bytes(tar_bytes(FILES))
    assert discover(str(path)).name == "caf?"


def test_a_pipe_is_read_like_a_file() -> None:
    reading, writing = os.pipe()
    os.write(writing, dump(small_machine()).encode())
    os.close(writing)
    _same(discover(f"/dev/fd/{reading}"), small_machine().name)
    os.close(reading)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_found_by_its_name(name: str) -> None:
    assert discover(name) == EXAMPLES[name].machine()


def test_a_synthetic_text_is_built() -> None:
    assert discover(small_machine().name) == small_machine()


def test_a_mistake_in_a_synthetic_text_is_explained() -> None:
    with pytest.raises(DiscoveryError, match=r"found colour=red, expected one of mem"):
        discover("2s:4c,colour=red")


@pytest.mark.parametrize("source", ["", "nothing", "/no/such/file", "a\0b", "x" * 5000, "😀"])
def test_an_unknown_source_says_what_was_tried(source: str) -> None:
    with pytest.raises(DiscoveryError) as caught:
        discover(source)
    assert "no file, directory or example of this name" in str(caught.value)
    assert next(iter(EXAMPLES)) in str(caught.value)


def test_json_of_neither_kind_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text(json.dumps({"kind": "Pod"}))
    with pytest.raises(DiscoveryError, match="neither apiVersion nor topology"):
        discover(str(tmp_path / "pod.json"))


def test_the_running_host_agrees_with_the_kernel() -> None:
    machine = discover(None)
    assert set(os.sched_getaffinity(0)) <= set(machine.online)
    cpuinfo = Path("/proc/cpuinfo").read_text()
    assert cpuinfo.count("\nprocessor") + cpuinfo.startswith("processor") == len(machine.cpus)
    assert len(machine.cpus) == os.sysconf("SC_NPROCESSORS_ONLN")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine.memory_bytes == pytest.approx(total, rel=0.01)
    assert {cpu.node for cpu in machine.cpus} <= set(machine.node_set)


def test_the_running_host_can_be_captured_as_the_manual_says(tmp_path: Path) -> None:
    manual = DOCS / "reference" / "machine-sources.md"
    script = manual.read_text().split("```sh\n")[1].split("```")[0]
    target = tmp_path / "capture.tar.xz"
    script = script.replace("/tmp/capture.tar.xz", str(target))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run(["sh", "-c", script], check=True, env=environment)
    host, captured = discover(None), discover(str(target))
    assert captured.name == "capture"
    assert captured.cpus == host.cpus
    assert captured.caches == host.caches
    assert captured.devices == host.devices
    assert [(n.id, n.cpus, n.distances) for n in captured.nodes] == [
        (n.id, n.cpus, n.distances) for n in host.nodes
    ]
