"""Pods as Misc objects for lstopo."""

import random
import shutil
import subprocess
from dataclasses import replace

import pytest
from tests.core.hosts import machine, settings

from numalign.apps.render.lstopo_misc import LINE_BYTES_MAX, cpuset_texts, entries, render
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.state import CpuState
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.pod import Pod
from numalign.core.values.sets import parse_list


def snapshot(entries, pods=(), names=None, shared="0-1"):
    """A host with two NUMA nodes of four CPUs; CPU sets by pod and container."""
    host = hosts.build(settings("best-effort"), machine(nodes=2, cores=2, threads=2))
    state = hosts.start(host)
    held = {uid: {c: parse_list(t) for c, t in found.items()} for uid, found in entries.items()}
    cpu = CpuState("static", parse_list(shared), held)
    known = {uid: Pod(uid, uid) for uid in (*entries, *pods)}
    state = replace(state, cpu=cpu, pods=known)
    return HostSnapshot(synthetic_machine("2s:1n:2c:2t"), host, state, {}, names or {})


def test_an_entry_has_name_cpus_and_subtype_for_each_node():
    found = render(snapshot({"u": {"c": "3-5"}, "v": {"a": "2"}}, names={"u": "ns/web"}))
    assert found == (
        "name=ns/web/c\ncpuset=0x00000008\nsubtype=Pod\n\n"
        "name=ns/web/c\ncpuset=0x00000030\nsubtype=Pod\n\n"
        "name=v/a\ncpuset=0x00000004\nsubtype=Pod\n"
    )


def test_nobody_is_listed_on_a_node_without_its_cpus():
    found = entries(snapshot({"u": {"c": "3"}, "v": {"c": ""}}))
    assert found == [("u/c", 8, "Pod")]


def test_pods_without_cpus_of_their_own_are_counted_at_the_pool():
    found = render(snapshot({"u": {"c": "2"}}, pods=["x", "y"]))
    assert found.endswith("\nname=shared pool: 2 pods\ncpuset=0x00000003\nsubtype=SharedPool\n")
    assert render(snapshot({})) == ""


def test_no_line_is_longer_than_lstopo_reads_and_no_name_breaks_one():
    names = {"u": f"ns/a\ncpuset=0x1{'ä' * 300}"}
    lines = render(snapshot({"u": {"c": "2"}}, names=names)).splitlines()
    assert len(lines) == 3
    assert max(len(line.encode()) for line in lines) < 255


def read(text):
    """A set as hwloc reads it: 32 CPUs a word, empty ones are zero, none after the last."""
    assert not text.endswith(",")
    mask = 0
    for word in text.split(","):
        mask = mask << 32 | int(word or "0", 16)
    return mask


@pytest.mark.parametrize("seed", range(50))
def test_sets_of_any_size_read_back_and_fit_a_line(seed):
    rng = random.Random(f"cpuset {seed}")
    cpus = sum(
        {1 << rng.randrange(rng.choice([8, 64, 500, 4000])) for _ in range(rng.choice([2, 300]))}
    )
    texts = list(cpuset_texts(cpus))
    assert sum(map(read, texts)) == cpus
    assert all(len(text) <= LINE_BYTES_MAX - len("cpuset=") for text in texts)


@pytest.mark.skipif(shutil.which("hwloc-calc") is None, reason="needs hwloc")
@pytest.mark.parametrize("text", ["56", "1-2,129-130", "0,31-32,64", "63", "700"])
def test_hwloc_reads_the_sets(text):
    [words] = cpuset_texts(parse_list(text))
    asked = ["hwloc-calc", "-i", "pu:1000", "--po", "-I", "pu", words]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert parse_list(done.stdout.strip()) == parse_list(text)
