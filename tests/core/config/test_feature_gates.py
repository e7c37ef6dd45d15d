"""Feature gates: which exist, which are locked, what they are by default."""

from __future__ import annotations

import pytest

from numalign.core.config import feature_gates
from numalign.core.settings import GATE_DEFAULTS, Version


@pytest.mark.parametrize("version", list(Version))
def test_the_defaults_of_the_managers_gates_are_those_of_the_kubelet(version: Version) -> None:
    effective = feature_gates.effective({}, version)
    assert {name: effective[name] for name in GATE_DEFAULTS} == GATE_DEFAULTS
    assert feature_gates.faults({}, version) == []


def test_an_unknown_gate_is_refused_and_one_that_is_gone_too() -> None:
    assert feature_gates.faults({"Foo": True}, Version.V1_36) == ["unrecognized feature gate: Foo"]
    assert feature_gates.faults({"SidecarContainers": True}, Version.V1_36) == []
    assert feature_gates.faults({"SidecarContainers": True}, Version.V1_37) == [
        "unrecognized feature gate: SidecarContainers"
    ]


def test_a_locked_gate_may_only_be_set_to_what_it_is() -> None:
    name = "DisableCPUQuotaWithExclusiveCPUs"
    assert feature_gates.faults({name: False}, Version.V1_36) == []
    assert feature_gates.faults({name: True}, Version.V1_37) == []
    assert feature_gates.faults({name: False}, Version.V1_37) == [
        f"cannot set feature gate {name} to false, feature is locked to true"
    ]


def test_a_gate_needs_those_that_it_depends_on() -> None:
    chosen = {"PodLevelResources": False, "PodLevelResourceManagers": True}
    needs = "is enabled, but depends on features that are disabled: [PodLevelResources]"
    assert feature_gates.faults(chosen, Version.V1_36) == [
        f"InPlacePodLevelResourcesVerticalScaling {needs}",
        f"PodLevelResourceManagers {needs}",
    ]


def test_all_alpha_sets_the_alpha_gates_that_are_not_set_by_name() -> None:
    chosen = {"AllAlpha": True, "CPUManagerPolicyAlphaOptions": False}
    effective = feature_gates.effective(chosen, Version.V1_36)
    assert effective["TopologyManagerPolicyAlphaOptions"]
    assert effective["PodLevelResourceManagers"]
    assert not effective["CPUManagerPolicyAlphaOptions"]
    # The managers for pod-level resources became beta in 1.37.
    assert not feature_gates.effective({"AllAlpha": True}, Version.V1_37)[
        "PodLevelResourceManagers"
    ]
    assert feature_gates.effective({"AllBeta": True}, Version.V1_37)["PodLevelResourceManagers"]
