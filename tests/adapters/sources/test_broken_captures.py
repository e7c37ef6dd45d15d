"""Whatever is wrong with a capture, the answer is a machine or one DiscoveryError."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.sources.captures import (
    CPU,
    NODE,
    PACKERS,
    small_machine,
    sysfs_files,
    tar_bytes,
    write_tree,
)

from numalign.adapters.sources.discovery import discover
from numalign.adapters.sources.filetree import MappingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import Machine, validate
from numalign.core.machine.synthetic import synthetic_machine
from numalign.wire.machine.machine_yaml import dump, load

FILES = sysfs_files(synthetic_machine("2s:1n:1c:2t,mem=4Gi,hp2Mi=16,gpu=1"))
# One CPU shows what the files of a CPU do; the others are as good.
PLACES = [path for path in FILES if "/cpu/cpu" not in path or "/cpu1/" in path]
GARBAGE = (
    "",
    "\n",
    "garbage",
    "-1",
    "-5",
    "0",
    "99999999999999999999999999",
    "9223372036854775807",
    "4294967295",
    "0-",
    "3-1",
    "0-70000",
    "1,1,1",
    "ffffffff," * 3000 + "ffffffff",
    "0," * 300_000 + "0",
    "\0\0\0",
    "\ufffd\u0661",
    "1e9",
    " 12 13 ",
    "K",
    "Node 0 MemTotal: -5 kB",
    "MemTotal: 99999999999999999 kB",
)


def _machine_or_error(files: dict[str, str]) -> Machine | None:
    try:
        return validate(read_machine(MappingTree(files), "fuzzed"))
    except DiscoveryError as exc:
        assert "found" in str(exc)
        assert "expected" in str(exc)
        return None


@pytest.mark.parametrize("text", GARBAGE, ids=lambda text: repr(text[:20]))
def test_garbage_in_any_one_file_gives_a_machine_or_one_clear_error(text: str) -> None:
    for path in PLACES:
        _machine_or_error(FILES | {path: text})


def test_any_one_file_may_be_missing() -> None:
    for path in PLACES:
        assert _machine_or_error({k: v for k, v in FILES.items() if k != path}) is not None, path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_flipped_and_deleted_files_give_a_machine_or_one_clear_error(data: st.DataObject) -> None:
    files = dict(FILES)
    for path in data.draw(st.lists(st.sampled_from(sorted(FILES)), max_size=40, unique=True)):
        text = data.draw(st.one_of(st.none(), st.sampled_from(GARBAGE), st.text(max_size=20)))
        if text is None:
            del files[path]
        else:
            files[path] = text
    machine = _machine_or_error(files)
    if machine is not None:
        assert load(dump(machine)) == machine


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_flipped_bytes_in_any_format_give_a_machine_or_one_clear_error(
    data: st.DataObject, tmp_path: Path
) -> None:
    original = data.draw(st.sampled_from(SAMPLES))
    broken = bytearray(original)
    for place in data.draw(st.lists(st.integers(0, len(broken) - 1), min_size=1, max_size=8)):
        broken[place] = data.draw(st.integers(0, 255))
    kept = data.draw(st.integers(1, len(broken)))
    path = tmp_path / "broken"
    path.write_bytes(broken[:kept] if data.draw(st.booleans()) else broken)
    try:
        validate(discover(str(path)))
    except DiscoveryError as exc:
        assert "found" in str(exc)


XML = b"""<topology version="2.0"><object type="Machine" cpuset="0x3" complete_cpuset="0x7">
<object type="NUMANode" os_index="0" cpuset="0x3" local_memory="100" gp_index="9"/>
<object type="Package" os_index="0" cpuset="0x3"><object type="L3Cache" cpuset="0x3" depth="3"
 cache_size="99" cache_type="0"><object type="Core" os_index="0" cpuset="0x3">
<object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/>
</object></object></object><object type="PCIDev" pci_busid="0000:00:02.0"
 pci_type="0200 [8086:10d3] [8086:0000] 00"/></object><distances2 type="NUMANode" kind="5"
 indexing="os"><indexes>0</indexes><u64values>10</u64values></distances2></topology>"""
JSON = (
    b'{"num_cores":2,"num_sockets":1,"memory_capacity":9,"topology":[{"node_id":0,"memory":9,'
    b'"hugepages":[{"page_size":2048,"num_pages":3}],"distances":[10],"cores":[{"core_id":0,'
    b'"thread_ids":[0,1],"caches":[{"id":0,"size":9,"type":"Data","level":1}],"socket_id":0}]}]}'
)
TINY = {
    f"{CPU}/online": "0-1\n",
    f"{CPU}/cpu0/topology/core_id": "0\n",
    f"{CPU}/cpu1/topology/core_id": "1\n",
    f"{NODE}/node0/cpumap": "3\n",
    f"{NODE}/node0/meminfo": "Node 0 MemTotal: 9 kB\n",
}
SAMPLES = [
    XML,
    JSON,
    dump(small_machine()).encode(),
    *(tar_bytes(TINY, links={"sys/a": "b"}, packer=packer) for packer in PACKERS),
]
FILES_OF_NO_MACHINE = {
    "empty": b"",
    "zeros": bytes(4096),
    "binary": bytes(range(256)) * 20,
    "text": b"Dear diary,\n",
    "json list": b"[1, 2, 3]",
    "json of another": b'{"kind": "Pod"}',
    "json cut": b'{"topology": [',
    "json deep": b'{"topology":' + b"[" * 100_000,
    "json latin-1": b'{"apiVersion": "\xe4"}',
    "xml of another": b"<svg/>",
    "gzip of nothing": PACKERS[".gz"](b""),
    "xz of binary": PACKERS[".xz"](bytes(range(256))),
    "tar of nothing": tar_bytes({}),
    "a magic and nothing more": b"BZh9",
    "an ELF": b"\x7fELF" + bytes(600),
}


@pytest.mark.parametrize("data", FILES_OF_NO_MACHINE.values(), ids=FILES_OF_NO_MACHINE)
def test_a_file_of_no_machine_is_one_clear_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(DiscoveryError, match=r"found .*, expected"):
        discover(str(path))


def test_an_empty_directory_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="no CPU in sys/devices/system/cpu"):
        discover(str(tmp_path))


def test_a_directory_where_a_file_should_be_is_a_hole(tmp_path: Path) -> None:
    write_tree(tmp_path, TINY)
    (tmp_path / CPU / "online").unlink()
    (tmp_path / CPU / "online").mkdir()
    assert len(discover(str(tmp_path)).cpus) == 2


def test_more_memory_than_can_be_is_refused() -> None:
    files = FILES | {f"{NODE}/node1/meminfo": "Node 1 MemTotal: 9223372036854775807 kB\n"}
    with pytest.raises(DiscoveryError, match="bytes of memory on NUMA node 1"):
        read_machine(MappingTree(files), "huge")
