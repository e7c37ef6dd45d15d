"""Rules between pods and hosts besides NUMA."""

import pytest

from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostPort,
    HostRequirements,
    Requirement,
    Taint,
    Term,
    Toleration,
    holds,
    objection,
    port_conflict,
    untolerated,
)

HOST = HostFacts("w1", {"zone": "a", "cpus": "64", "gen": "v3"})


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("none", "In", ("a",)), False),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("none", "NotIn", ("a",)), True),  # as Kubernetes has it
        (Requirement("zone", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("cpus", "Gt", ("63",)), True),
        (Requirement("cpus", "Gt", ("64",)), False),
        (Requirement("cpus", "Lt", ("65",)), True),
        (Requirement("cpus", "Lt", ("64",)), False),
        (Requirement("gen", "Gt", ("1",)), False),  # not a number
        (Requirement("cpus", "Gt", ("6_3",)), False),  # Python would read it, Go would not
        (Requirement("cpus", "Gt", (" 63",)), False),
        (Requirement("cpus", "Gt", ("99999999999999999999999",)), False),
        (Requirement("none", "Lt", ("1",)), False),
        (Requirement("cpus", "Lt", ()), False),
        (Requirement("zone", "Resembles", ("a",)), False),  # an operator of tomorrow
    ],
)
def test_a_requirement_compares_as_kubernetes_does(requirement: Requirement, expected: bool):
    assert holds(requirement, HOST.labels) is expected


def test_one_term_must_hold_with_all_of_its_requirements():
    both = Term((Requirement("zone", "In", ("a",)), Requirement("cpus", "Gt", ("100",))))
    other = Term((Requirement("gen", "Exists"),))
    assert objection(HostRequirements(terms=(both,)), HOST) == (
        "labels do not match the pod's required node affinity"
    )
    assert objection(HostRequirements(terms=(both, other)), HOST) is None


def test_an_empty_term_and_no_terms_hold_for_no_host():
    assert objection(HostRequirements(terms=(Term(),)), HOST) is not None
    assert objection(HostRequirements(terms=()), HOST) is not None
    assert objection(HostRequirements(terms=None), HOST) is None


def test_fields_know_only_the_name_of_the_host():
    named = Term(fields=(Requirement("metadata.name", "In", ("w1",)),))
    assert objection(HostRequirements(terms=(named,)), HOST) is None
    assert objection(HostRequirements(terms=(named,)), HostFacts("w2")) is not None
    unknown = Term(fields=(Requirement("metadata.uid", "NotIn", ("x",)),))
    assert objection(HostRequirements(terms=(unknown,)), HOST) is not None


def test_a_selector_must_match_in_full():
    assert objection(HostRequirements(selector=(("zone", "a"),)), HOST) is None
    assert objection(HostRequirements(selector=(("zone", "a"), ("gen", "v4"))), HOST) == (
        "labels do not match the pod's nodeSelector"
    )


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("dedicated", "Equal", "db", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "db"), True),  # any effect
        (Toleration("dedicated", "Equal", "web"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("dedicated", "Exists", effect="NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("dedicated", "Gt", "1"), False),  # not numbers
    ],
)
def test_a_toleration_matches_key_value_and_effect(toleration: Toleration, expected: bool):
    taint = Taint("dedicated", "db", "NoSchedule")
    assert (untolerated([toleration], [taint]) is None) is expected


def test_taints_that_only_prefer_keep_nobody_away():
    assert untolerated([], [Taint("slow", "", "PreferNoSchedule")]) is None
    assert untolerated([], [Taint("out", "", "NoExecute")]) == Taint("out", "", "NoExecute")


def test_a_taint_is_named_in_the_objection():
    host = HostFacts("w1", taints=(Taint("dedicated", "db", "NoSchedule"),))
    assert objection(HostRequirements(), host) == (
        "taint dedicated=db:NoSchedule that the pod does not tolerate"
    )


def test_cordoned_and_unready_hosts_take_only_pods_that_tolerate_it():
    cordoned = HostFacts("w1", is_unschedulable=True)
    assert objection(HostRequirements(), cordoned) == "closed for new pods (cordoned)"
    tolerant = Toleration("node.kubernetes.io/unschedulable", "Exists")
    assert objection(HostRequirements(tolerations=(tolerant,)), cordoned) is None
    unready = HostFacts("w1", is_ready=False)
    assert objection(HostRequirements(), unready) == "not ready"
    assert objection(HostRequirements(tolerations=(Toleration("", "Exists"),)), unready) is None


def test_a_pod_that_names_its_host_goes_nowhere_else():
    assert objection(HostRequirements(host_name="w1"), HOST) is None
    assert objection(HostRequirements(host_name="w2"), HOST) == "not the host that the pod names"


@pytest.mark.parametrize(
    ("wanted", "taken", "expected"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80, "UDP"), HostPort(80), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80), True),
        (HostPort(80), HostPort(80, address="10.0.0.1"), True),
    ],
)
def test_host_ports_clash_on_the_same_address(wanted: HostPort, taken: HostPort, expected: bool):
    assert (port_conflict([wanted], [taken]) is not None) is expected
