"""The amounts of cgroups are those that the real kubelet wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.paths import VECTORS

from numalign.core.kubelet import cgroup_limits as values
from numalign.core.kubelet.state import Block
from numalign.core.pod import Container, Pod, Qos
from numalign.core.settings import Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.pods import manifests as pods

RECORDS = sorted((VECTORS / "live").glob("*.json.gz"))
LIMIT_FILES = ("cpu.weight", "cpu.max", "memory.max", "hugetlb.2MB.max")


def applied(record: dict[str, Any]) -> Iterator[tuple[Pod, dict[str, Any]]]:
    for step in record["steps"]:
        if step.get("result", {}).get("cgroups"):
            text = json.dumps(step["apply"]).encode()
            yield pods.core_pod(pods.load_all(text, source="record")[0]), step["result"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_the_values_are_those_of_a_real_kubelet(path: Path) -> None:
    record = json.loads(gzip.decompress(path.read_bytes()))
    gates = record["config"].get("featureGates", {})
    settings = Settings(
        version=Version(record["kubernetes"].rpartition(".")[0]),
        cpu_policy="static",
        memory_policy="Static",
        gates=gates,
    )
    compared = 0
    for pod, result in applied(record):
        cpu = cpu_checkpoint.decode(result[cpu_checkpoint.FILE_NAME].encode(), settings)
        memory = memory_checkpoint.decode(result[memory_checkpoint.FILE_NAME].encode(), settings)
        own = cpu.entries.get(pod.uid, {})
        blocks = memory.entries.get(pod.uid, {})
        for name, recorded in result["cgroups"].items():
            if not name:
                limits = values.limits_of_pod(pod, settings, any_exclusive=bool(own))
                ours = values.files_v2(limits, ["2MB"]) | {"cpuset.cpus": "", "cpuset.mems": ""}
            else:
                container = next(c for c in pod.in_order if c.name == name)
                limits = values.limits_of_container(pod, container, settings, exclusive=name in own)
                cpus = CpuSet(own.get(name, cpu.shared))
                mems = values.mems_of(blocks.get(name, ()))
                sets = values.cpuset_files(cpus, mems)
                ours = values.files_v2(limits, ["2MB"]) | {
                    "hugetlb.2MB.max": "max",
                    "cpuset.cpus": sets["cpuset.cpus"],
                    "cpuset.mems": str(NodeSet.parse(sets.get("cpuset.mems", ""))),
                }
            theirs = {file: recorded[file] for file in ours}
            assert ours == theirs, f"{pod.name} {name!r}"
            compared += 1
    assert compared >= 10


def test_shares_weights_and_quotas_stay_within_the_bounds_of_the_kernel() -> None:
    assert [values.shares_of(milli) for milli in (0, 1, 2, 1500, 10**9)] == [2, 2, 2, 1536, 262144]
    assert [values.weight_of(shares) for shares in (2, 1024, 262144)] == [1, 39, 10000]
    assert [values.quota_of(milli, 100_000) for milli in (0, 1, 10, 1500)] == [
        None,
        1000,
        1000,
        150_000,
    ]


def amounts(**texts: str) -> dict[str, Quantity]:
    return {
        name.replace("hugepages_", "hugepages-"): Quantity.parse(text)
        for name, text in texts.items()
    }


LIMITED = Container("a", requests=amounts(cpu="1"), limits=amounts(cpu="2", memory="1Gi"))
UNLIMITED = Container("b", requests=amounts(cpu="500m"))


def test_one_container_without_limits_makes_a_burstable_pod_unlimited() -> None:
    both = values.limits_of_pod(
        Pod("u", containers=(LIMITED, UNLIMITED)), Settings(), any_exclusive=False
    )
    assert (both.cpu_shares, both.cpu_quota_us, both.memory_bytes_max) == (1536, None, None)
    alone = values.limits_of_pod(Pod("u", containers=(LIMITED,)), Settings(), any_exclusive=False)
    assert (alone.cpu_shares, alone.cpu_quota_us, alone.memory_bytes_max) == (1024, 200_000, 2**30)


def test_a_limit_for_the_whole_pod_holds_for_a_container_without_one() -> None:
    pod = Pod("u", containers=(UNLIMITED,), limits=amounts(cpu="3", memory="2Gi"))
    limits = values.limits_of_container(pod, UNLIMITED, Settings(), exclusive=False)
    assert (limits.cpu_shares, limits.cpu_quota_us, limits.memory_bytes_max) == (
        512,
        300_000,
        2 * 2**30,
    )
    whole = values.limits_of_pod(pod, Settings(), any_exclusive=False)
    assert (whole.cpu_quota_us, whole.memory_bytes_max) == (300_000, 2 * 2**30)


def test_the_quota_of_exclusive_cpus_comes_back_with_its_gate_off_or_without_a_policy() -> None:
    pinned = Settings(cpu_policy="static")
    kept = Settings(cpu_policy="static", gates={"DisableCPUQuotaWithExclusiveCPUs": False})
    pod = Pod("u", containers=(LIMITED,))
    none = Settings(cpu_policy="none")
    for settings, expected in ((pinned, None), (kept, 200_000), (none, 200_000)):
        own = values.limits_of_container(pod, LIMITED, settings, exclusive=True)
        whole = values.limits_of_pod(pod, settings, any_exclusive=True)
        assert (own.cpu_quota_us, whole.cpu_quota_us) == (expected, expected)


def test_no_quota_is_written_where_the_operator_wants_none() -> None:
    rule = values.QuotaRule(enforced=False, period_us=50_000)
    pod = Pod("u", containers=(LIMITED,))
    whole = values.limits_of_pod(pod, Settings(), any_exclusive=False, quota=rule)
    own = values.limits_of_container(pod, LIMITED, Settings(), exclusive=False, quota=rule)
    assert values.files_v2(whole)["cpu.max"] == values.files_v2(own)["cpu.max"] == "max 50000"


def test_qos_classes_weigh_what_their_pods_ask_for() -> None:
    burstable = Pod("u", containers=(LIMITED, UNLIMITED))
    best_effort = Pod("v", containers=(Container("c"),))
    shares = {
        qos: values.limits_of_qos(qos, (burstable, best_effort, burstable), Settings()).cpu_shares
        for qos in Qos
    }
    assert shares == {Qos.GUARANTEED: 2, Qos.BURSTABLE: 3072, Qos.BEST_EFFORT: 2}


def test_huge_pages_are_limited_for_the_pod_and_unlisted_sizes_to_nothing() -> None:
    asked = Container(
        "a",
        requests=amounts(cpu="1", hugepages_2Mi="4Mi"),
        limits=amounts(hugepages_2Mi="4Mi"),
    )
    limits = values.limits_of_pod(Pod("u", containers=(asked,)), Settings(), any_exclusive=False)
    v2 = values.files_v2(limits, ["2MB", "1GB"])
    assert (v2["hugetlb.2MB.max"], v2["hugetlb.1GB.max"]) == ("4194304", "0")
    v1 = values.files_v1(limits, ["2MB", "1GB"])
    assert v1["hugetlb.2MB.limit_in_bytes"] == "4194304"
    assert values.files_v2(limits, [])["hugetlb.2MB.max"] == "4194304"
    assert [values.page_size_text(2**n) for n in (16, 21, 25, 30, 34)] == [
        "64KB",
        "2MB",
        "32MB",
        "1GB",
        "16GB",
    ]


def test_the_words_of_v1_are_those_of_the_same_amounts() -> None:
    limits = values.Limits(cpu_shares=1536, cpu_quota_us=150_000, memory_bytes_max=2**20)
    assert values.files_v1(limits) == {
        "cpu.shares": "1536",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "memory.limit_in_bytes": "1048576",
    }
    free = values.files_v1(values.Limits())
    assert (free["cpu.cfs_quota_us"], free["memory.limit_in_bytes"]) == ("-1", "-1")


def test_memory_nodes_are_those_of_all_blocks_and_left_alone_without_any() -> None:
    blocks = (Block((2,), "memory", 1), Block((0, 1), "hugepages-2Mi", 1))
    mems = values.mems_of(blocks)
    assert values.cpuset_files(CpuSet.parse("0-2"), mems) == {
        "cpuset.cpus": "0-2",
        "cpuset.mems": "0,1,2",
    }
    assert values.mems_of(()) is None
    assert values.cpuset_files(None, None) == {}
