"""A KubeletConfiguration: what it says, what is wrong with it, what it means on a machine."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.config.reservations import EVICTION_HARD_DEFAULTS
from numalign.core.errors import ConfigError
from numalign.core.settings import ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet
from numalign.wire.kubelet.config import USED_KEYS, KubeletConfig, load, settings_for

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
BOTH = pytest.mark.parametrize("version", list(Version))


def loaded(text: str, version: Version = Version.V1_36) -> KubeletConfig:
    return load(HEADER + text, version=version)


def faults(text: str, version: Version = Version.V1_36) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text, version)
    return str(caught.value).split("\n")


def on_machine(config: KubeletConfig, version: Version = Version.V1_36) -> Settings:
    return settings_for(
        config,
        version=version,
        cpu_count=8,
        online=CpuSet.parse("0-7"),
        memory_bytes=2**34,
        hugepage_bytes={"hugepages-2Mi": 2**30},
    )


# The configuration of a recorded host, with many keys that we do not use.
RECORDED = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "staticPodPath": "/run/kubelet/manifests",
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": "unix:///run/ctd/containerd.sock",
    "failSwapOn": False,
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "best-effort",
    "reservedSystemCPUs": "0-1",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "address": "127.0.0.1",
    "readOnlyPort": 10255,
    "podLogsDir": "/run/kubelet/logs",
    "localStorageCapacityIsolation": False,
    "enforceNodeAllocatable": ["pods"],
    "cpuManagerReconcilePeriod": "2s",
    "logging": {"verbosity": 3},
    "topologyManagerScope": "pod",
    "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"},
}


@BOTH
def test_a_recorded_configuration_becomes_the_settings_of_its_machine(version: Version) -> None:
    config = load(json.dumps(RECORDED), version=version)
    assert config.cpu_reconcile_period_ns == 2_000_000_000
    found = on_machine(config, version)
    assert found == Settings(
        version=version,
        topology_policy="best-effort",
        topology_scope="pod",
        cpu_policy="static",
        cpu_options={"strict-cpu-reservation": "true"},
        reserved_cpus="0-1",
        memory_policy="Static",
        reserved_memory=(ReservedMemory(0, "memory", Quantity.parse("200Mi")),),
        node_allocatable_reservation={"cpu": Quantity.of(2), "memory": Quantity.parse("200Mi")},
    )
    assert str(found.node_allocatable_reservation["memory"]) == "200Mi"


@BOTH
def test_an_empty_configuration_has_the_kubelets_defaults(version: Version) -> None:
    config = loaded("", version)
    assert config == KubeletConfig()
    assert config.eviction_hard == EVICTION_HARD_DEFAULTS
    assert on_machine(config, version) == Settings(
        version=version, node_allocatable_reservation={"memory": Quantity.parse("100Mi")}
    )


def test_empty_texts_and_nulls_mean_the_defaults() -> None:
    text = (
        'topologyManagerPolicy: ""\ncpuManagerPolicy: null\nevictionHard: null\n'
        'cpuManagerReconcilePeriod: "0"\nreservedMemory: null\n'
    )
    assert loaded(text) == KubeletConfig()


def test_thresholds_replace_all_defaults_unless_they_are_to_be_merged() -> None:
    assert loaded("evictionHard: {}\n").eviction_hard == {}
    own = "evictionHard: {memory.available: 1Gi}\n"
    assert loaded(own).eviction_hard == {"memory.available": "1Gi"}
    merged = loaded(own + "mergeDefaultEvictionSettings: true\n").eviction_hard
    assert merged == {**EVICTION_HARD_DEFAULTS, "memory.available": "1Gi"}


def test_a_percentage_of_the_memory_is_reserved_for_eviction() -> None:
    config = loaded("evictionHard: {memory.available: 50%}\n")
    assert str(on_machine(config).node_allocatable_reservation["memory"]) == "8Gi"


def test_reserved_memory_may_be_written_in_numbers() -> None:
    text = (
        "reservedMemory:\n"
        "- numaNode: 0\n  limits: {memory: 1.5, hugepages-1Gi: 1Gi}\n"
        "- numaNode: 1\n  limits: {memory: 1e3}\n"
    )
    amounts = [entry.amount for entry in loaded(text).reserved_memory]
    assert [str(amount) for amount in amounts] == ["1Gi", "1500m", "1k"]
    assert [amount.as_int64() for amount in amounts] == [2**30, None, 1000]


def test_an_explicit_list_of_cpus_replaces_both_reservations_of_cpu() -> None:
    text = 'reservedSystemCPUs: "0-2"\nkubeReserved: {cpu: "1"}\nsystemReserved: {cpu: "1"}\n'
    assert on_machine(loaded(text)).node_allocatable_reservation["cpu"] == Quantity.of(3)


@pytest.mark.parametrize(
    ("version", "count"), [(Version.V1_36, 2), (Version.V1_37, 1)], ids=["1.36", "1.37"]
)
def test_a_sliver_of_a_cpu_is_rounded_by_version(version: Version, count: int) -> None:
    config = loaded('kubeReserved: {cpu: "1.0001"}\n', version)
    assert on_machine(config, version).node_allocatable_reservation["cpu"].value() == count


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        ("{}", 110),
        ("maxPods: 30", 30),
        ("maxPods: 0", 110),
        ("podsPerCore: 4", 32),
        ("podsPerCore: 20", 110),
        ("maxPods: 250\npodsPerCore: 20", 160),
    ],
)
def test_the_number_of_pods_is_bounded_as_in_the_kubelet(text: str, pods: int) -> None:
    assert loaded("" if text == "{}" else text).pods_max_on(cpu_count=8) == pods


def test_fewer_than_no_pods_are_refused() -> None:
    assert faults("maxPods: -1\npodsPerCore: -2") == [
        "maxPods: found -1, expected 0 or more",
        "podsPerCore: found -2, expected 0 or more",
    ]


def test_gates_that_differ_from_their_defaults_reach_the_settings() -> None:
    text = "featureGates: {PodLevelResourceManagers: true, CPUManagerPolicyBetaOptions: true}\n"
    assert on_machine(loaded(text)).gates == {"PodLevelResourceManagers": True}


# One fault each; the messages were compared with those of the real kubelets.
INVALID = "invalid configuration: "
FAULTY = [
    (
        "topologyManagerPolicy: strict\n",
        INVALID + 'topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: '
        '["none" "best-effort" "restricted" "single-numa-node"]',
    ),
    (
        "topologyManagerScope: node\n",
        INVALID + 'topologyManagerScope (--topology-manager-scope) "node" must be one of: '
        '"container", or "pod"',
    ),
    (
        'reservedSystemCPUs: "0-a"\n',
        INVALID + "unable to parse reservedSystemCPUs (--reserved-cpus) 0-a, error: "
        'strconv.Atoi: parsing "a": invalid syntax',
    ),
    (
        'reservedSystemCPUs: "0-1"\nsystemReservedCgroup: /x\n',
        INVALID + "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
        "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]\n",
        INVALID + 'the limit type "cpu" for NUMA node 0 is not supported, only '
        "[memory hugepages-<HugePageSize>] is accepted",
    ),
    (
        "reservedMemory: [{numaNode: 3, limits: {memory: 0}}]\n",
        INVALID + 'reserved memory may not be zero for NUMA node 3 and resource "memory"',
    ),
    (
        "reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {limits: {memory: 2}}]\n",
        INVALID + 'the reserved memory has a duplicate value for NUMA node 0 and resource "memory"',
    ),
    (
        "cpuCFSQuotaPeriod: 500us\n",
        INVALID + "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {500µs} must be between 1ms and "
        "1sec, inclusive",
    ),
    (
        "enforceNodeAllocatable: [kube-reserved]\n",
        INVALID + "kubeReservedCgroup (--kube-reserved-cgroup) must be specified when "
        '"kube-reserved" or "kube-reserved-compressible" included in enforceNodeAllocatable '
        "(--enforce-node-allocatable)",
    ),
    ("featureGates: {Foo: true}\n", "unrecognized feature gate: Foo"),
    (
        'kubeReserved: {gpu: "1"}\n',
        '--kube-reserved value failed to parse: cannot reserve "gpu" resource',
    ),
    ("evictionHard: {foo: 5%}\n", "unsupported eviction signal foo"),
    ("cpuManagerPolicyX: static\n", 'unknown field "cpuManagerPolicyX"'),
    ("CPUManagerPolicy: static\n", 'unknown field "CPUManagerPolicy"'),
    ("reservedMemory: [{node: 0}]\n", 'unknown field "reservedMemory[0].node"'),
    (
        "cpuManagerPolicy: 5\n",
        "cpuManagerPolicy: found the number 5, expected a text; put it in quotes",
    ),
    ("reservedMemory: {}\n", "reservedMemory: found a map, expected a list"),
    (
        "cpuManagerPolicyOptions: {full-pcpus-only: true}\n",
        "cpuManagerPolicyOptions.full-pcpus-only: found the truth value true, expected a text; "
        "put it in quotes",
    ),
    (
        'featureGates: {AllAlpha: "yes"}\n',
        'featureGates.AllAlpha: found the text "yes", expected true or false; '
        "write it without quotes",
    ),
    (
        "cpuManagerReconcilePeriod: 5\n",
        "cpuManagerReconcilePeriod: found the number 5, expected a duration with its unit; for "
        'instance "10s"',
    ),
    (
        "cpuManagerReconcilePeriod: 5x\n",
        'cpuManagerReconcilePeriod: time: unknown unit "x" in duration "5x"',
    ),
    (
        "reservedMemory: [{numaNode: 4294967296}]\n",
        "reservedMemory[0].numaNode: found the number 4294967296, expected a whole number of 32 "
        "bits",
    ),
    (
        "systemReserved: {cpu: 1}\n",
        "systemReserved.cpu: found the number 1, expected a text; put it in quotes",
    ),
]


@BOTH
@pytest.mark.parametrize(("text", "message"), FAULTY)
def test_a_fault_is_told_in_one_line(text: str, message: str, version: Version) -> None:
    assert faults(text, version) == [message]


def test_all_faults_are_told_at_once() -> None:
    text = (
        "topologyManagerPolicy: x\ncpuManagerPolicyOptions: 7\nfoo: 1\nfeatureGates: {Bar: true}\n"
    )
    assert len(faults(text)) == 4


def test_1_37_refuses_a_throttling_factor_without_its_gate() -> None:
    text = "memoryThrottlingFactor: 0.8\nfeatureGates: {MemoryQoS: false}\n"
    assert loaded(text).memory_throttling_factor == pytest.approx(0.8)
    assert faults(text, Version.V1_37) == [
        INVALID + "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"
    ]
    assert loaded(text.replace("0.8", "0.9"), Version.V1_37)


def test_enforcing_a_reservation_needs_its_cgroup() -> None:
    text = "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /x\n"
    assert loaded(text).enforce_node_allocatable == ("pods", "kube-reserved")


def test_policies_and_options_are_left_to_the_managers() -> None:
    text = (
        "cpuManagerPolicy: dynamic\nmemoryManagerPolicy: static\ncpuManagerPolicyOptions: {x: y}\n"
    )
    assert loaded(text).cpu_policy == "dynamic"


def test_unknown_keys_can_be_passed_over_as_the_kubelet_does() -> None:
    assert load(HEADER + "foo: 1\n", version=Version.V1_36, strict=False) == KubeletConfig()


def test_a_key_of_the_newer_version_is_unknown_to_the_older_one() -> None:
    text = "defaultPodSysctls: {a: b}\n"
    assert faults(text) == ['unknown field "defaultPodSysctls"']
    assert loaded(text, Version.V1_37)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found nothing, expected a map with apiVersion kubelet.config.k8s.io/v1beta1"),
        ("[]", "found a list, expected a map"),
        ("kind: Pod\n", 'kind: found the text "Pod", expected "KubeletConfiguration"'),
        ("kind: Pod\n", 'apiVersion: found nothing, expected "kubelet.config.k8s.io/v1beta1"'),
        ("a: b: c\n", "found unreadable YAML: mapping values are not allowed"),
        ("\ud800", "no UTF-8"),
    ],
)
def test_another_kind_of_file_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text, version=Version.V1_36)
    assert message in str(caught.value)


def test_a_machine_that_cannot_bear_the_reservation_is_refused() -> None:
    with pytest.raises(ConfigError, match="has a reservation of 9 but capacity of 8"):
        on_machine(loaded('kubeReserved: {cpu: "9"}\n'))
    with pytest.raises(ConfigError, match="is not a subset of online-cpus: 0-7"):
        on_machine(loaded('reservedSystemCPUs: "8"\n'))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(sorted(USED_KEYS - {"kind", "apiVersion"})), ANYTHING))
def test_any_values_are_loaded_or_refused_line_by_line(values: dict[str, object]) -> None:
    content = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
    text = json.dumps({**content, **values}, allow_nan=True)
    try:
        config = load(text, version=Version.V1_37)
        on_machine(config, Version.V1_37)
    except ConfigError as exc:
        assert all(str(exc).split("\n"))
