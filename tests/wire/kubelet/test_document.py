"""A configuration written as a file reads back the same."""

import json
from dataclasses import replace

import pytest

from numalign.core.settings import ReservedMemory, Version
from numalign.core.values.quantity import Quantity
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import KubeletConfig, document_of, reduced

FULL = KubeletConfig(
    cpu_policy="static",
    cpu_options={"full-pcpus-only": "true"},
    cpu_reconcile_period_ns=2_500_000_000,
    memory_policy="Static",
    reserved_memory=(
        ReservedMemory(0, "hugepages-2Mi", Quantity.parse("4Mi")),
        ReservedMemory(0, "memory", Quantity.parse("1124Mi")),
        ReservedMemory(1, "memory", Quantity.parse("1Gi")),
    ),
    topology_policy="restricted",
    topology_scope="pod",
    topology_options={"prefer-closest-numa-nodes": "true"},
    reserved_system_cpus="0-1",
    kube_reserved={"memory": "1Gi"},
    system_reserved={"memory": "1Gi"},
    eviction_hard={"memory.available": "100Mi"},
    enforce_node_allocatable=("none",),
    cpu_cfs_quota=False,
    cpu_cfs_quota_period_ns=100_000_000,
    memory_throttling_factor=0.75,
    feature_gates={"CPUManagerPolicyAlphaOptions": True},
    pods_max=250,
    pods_per_core=10,
)


# The kubelet takes either a list of reserved CPUs or cgroups for what is reserved.
CGROUPS = replace(
    FULL, reserved_system_cpus="", system_reserved_cgroup="/system", kube_reserved_cgroup="/kube"
)
CONFIGS = {"default": KubeletConfig(), "full": FULL, "cgroups": CGROUPS}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_is_written_reads_back_the_same(config):
    text = json.dumps(document_of(config))
    assert kubelet_config.load(text, version=Version.V1_36) == config


def test_every_member_of_a_full_configuration_is_written():
    untold = {"apiVersion", "kind", "mergeDefaultEvictionSettings", "cpuCFSQuotaPeriod"}
    assert {*document_of(FULL), *document_of(CGROUPS)} | untold == kubelet_config.USED_KEYS


def test_defaults_are_left_out():
    assert set(document_of(KubeletConfig())) == {"apiVersion", "kind"}


def test_no_thresholds_at_all_are_written_as_such():
    config = KubeletConfig(eviction_hard={})
    assert document_of(config)["evictionHard"] == {}
    assert kubelet_config.load(json.dumps(document_of(config)), version=Version.V1_36) == config


def test_only_members_about_placement_are_kept():
    found = reduced({"kind": "K", "staticPodURLHeader": {"a": ["b"]}, "cpuManagerPolicy": "static"})
    assert found == {"cpuManagerPolicy": "static", "kind": "K"}
