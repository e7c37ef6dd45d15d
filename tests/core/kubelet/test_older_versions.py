"""Hosts older than 1.36: which rules stand in, and what is said about it."""

import pytest

from numalign.core.kubelet import older_versions
from numalign.core.kubelet.cpu.policy import OPTIONS, SPREAD_NUMA, STRICT, UNCORE
from numalign.core.kubelet.older_versions import CPU_OPTIONS, Kubernetes, gates_off, parsed
from numalign.core.kubelet.topology.policy import CLOSEST, MAX_NODES
from numalign.core.settings import Version

ALPHA = {"CPUManagerPolicyAlphaOptions": True}


@pytest.mark.parametrize(
    ("text", "minor", "rules"),
    [
        ("1.28", 28, Version.V1_36),
        ("v1.30.4+k3s1", 30, Version.V1_36),
        ("1.35.0-rc.1", 35, Version.V1_36),
        ("1.36.4", 36, Version.V1_36),
        ("1.37", 37, Version.V1_37),
    ],
)
def test_a_version_has_rules(text, minor, rules):
    found = parsed(text)
    assert (found.minor, found.rules, found.is_exact) == (minor, rules, minor >= 36)


@pytest.mark.parametrize("text", ["1.27", "1.38", "2.1", "", "1", "1.3x", "v", "1.36 "])
def test_a_version_without_rules_is_refused_with_those_that_have_some(text):
    with pytest.raises(ValueError, match=r"1\.36 or 1\.37 \(exact\), or 1\.28 to 1\.35"):
        parsed(text)


def test_every_option_of_the_cpu_manager_has_its_milestones():
    assert set(CPU_OPTIONS) == OPTIONS


@pytest.mark.parametrize("minor", [36, 37])
def test_exact_versions_need_no_words(minor):
    host = Kubernetes(minor)
    assert older_versions.notes(host, {STRICT: "true"}, {}, {}) == ()
    assert older_versions.unusable_options(host, {}) == frozenset()
    assert gates_off(host, {}) == {}


def test_options_come_with_their_versions():
    def unusable(minor, gates=None):
        return older_versions.unusable_options(Kubernetes(minor), gates or {})

    assert {STRICT, UNCORE, MAX_NODES} <= unusable(30, ALPHA)
    assert MAX_NODES not in unusable(31)
    assert {STRICT, UNCORE, SPREAD_NUMA} <= unusable(32)
    assert not {STRICT, UNCORE, SPREAD_NUMA} & unusable(32, ALPHA)
    assert UNCORE in unusable(33) and not {STRICT, SPREAD_NUMA} & unusable(33)
    assert UNCORE not in unusable(34)
    assert CLOSEST not in unusable(28)


def test_gates_that_were_off_are_off_unless_chosen():
    assert gates_off(Kubernetes(33), {}) == {"PodLevelResources": False}
    assert gates_off(Kubernetes(33), {"PodLevelResources": True}) == {}
    assert set(gates_off(Kubernetes(28), {})) == {
        "PodLevelResources",
        "DisableCPUQuotaWithExclusiveCPUs",
    }


def test_the_notes_name_what_differs_and_what_is_used_but_not_there():
    general, strict, spread = older_versions.notes(
        Kubernetes(30), {STRICT: "true", SPREAD_NUMA: "true"}, {CLOSEST: "true"}, {}
    )
    assert "rules of 1.36" in general and "exact (1.36 and 1.37)" in general
    assert "state files" in general and "pod-level resources are taken as off" in general
    both = f"{strict}\n{spread}"
    assert f"{STRICT} is there since 1.32: a kubelet of 1.30 would not start" in both
    assert f"{SPREAD_NUMA} is alpha in 1.30" in both
    assert len(older_versions.notes(Kubernetes(28), {}, {}, {})) == 1
    assert "sidecars" in older_versions.notes(Kubernetes(28), {}, {}, {})[0]
    assert "sidecars" not in general
