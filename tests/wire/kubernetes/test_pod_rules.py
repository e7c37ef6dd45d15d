"""What a v1.Pod demands of other pods, and its gang."""

import pytest

from numalign.core.cluster.between_pods.gangs import GangRef
from numalign.core.cluster.between_pods.rules import PodRules, Scope, Spread, Term
from numalign.core.cluster.scheduling.constraints import Requirement
from numalign.wire.kubernetes.scheduling import pod_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DB = Requirement("app", "In", ("db",))
SELECTOR = {"matchLabels": {"app": "db"}}


def rules(labels=None, annotations=None, **spec):
    metadata = {"name": "p", "namespace": "ns", "labels": labels or {"rev": "7"}}
    return pod_of({"metadata": {**metadata, "annotations": annotations}, "spec": spec})


def anti(**term):
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def test_a_pod_without_rules_has_none():
    assert rules().rules is None
    soft = {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    assert rules(topologySpreadConstraints=[soft]).rules is None


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        ({}, {"ns"}),
        ({"namespaces": ["a", "b"]}, {"a", "b"}),
        ({"namespaceSelector": {}}, None),
        (
            {
                "namespaces": ["a"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}},
            },
            {"a", "b"},
        ),
        # Taken for all where it is a pod that runs; a new one is refused or handed over.
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, None),
    ],
)
def test_the_namespaces_of_a_term(term, namespaces):
    found = rules(affinity=anti(labelSelector=SELECTOR, **term)).rules
    expected = None if namespaces is None else frozenset(namespaces)
    assert found == PodRules(anti_affinity=(Term(Scope(expected, (DB,)), "zone"),))


def test_expressions_and_keys_that_must_match_are_requirements():
    selector = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    found = rules(
        affinity={
            "podAffinity": {
                REQUIRED: [
                    {
                        "topologyKey": "zone",
                        "labelSelector": selector,
                        "matchLabelKeys": ["rev", "absent"],
                        "mismatchLabelKeys": ["rev"],
                    }
                ]
            }
        }
    ).rules
    (term,) = found.affinity
    assert term.scope.selector == (
        Requirement("tier", "Exists"),
        Requirement("rev", "In", ("7",)),
        Requirement("rev", "NotIn", ("7",)),
    )


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    (none,) = rules(affinity=anti()).rules.anti_affinity
    (every,) = rules(affinity=anti(labelSelector={})).rules.anti_affinity
    assert not none.scope.selects("ns", {})
    assert every.scope.selects("ns", {})


def test_a_hard_spread_with_all_its_members():
    one = {
        "topologyKey": "zone",
        "maxSkew": 2,
        "minDomains": 3,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "matchLabelKeys": ["rev"],
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }
    scope = Scope(frozenset({"ns"}), (DB, Requirement("rev", "In", ("7",))), counts_leaving=False)
    assert rules(topologySpreadConstraints=[one]).rules == PodRules(
        spread=(Spread(scope, "zone", 2, 3, honours_selector=False, honours_taints=True),)
    )


def gang(**annotations):
    return rules(
        annotations={f"numalign.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
    )


def test_a_gang_by_annotations():
    assert rules().gang is None
    assert gang(pod_group="g", pod_group_minimum="4").gang == GangRef("ns/g", 4)


@pytest.mark.parametrize("text", ["", "0", "-1", "4.5", "four", "٤", "9999999"])
def test_a_minimum_that_is_none_is_told(text):
    found = gang(pod_group="g", **({"pod_group_minimum": text} if text else {})).gang
    assert found.minimum == 0
    assert "expected the number of pods of the gang g" in found.problem
    assert (repr(text) if text else "none") in found.problem


def test_a_pod_group_object_comes_before_annotations():
    found = rules(
        annotations={"numalign.io/pod-group": "g"}, schedulingGroup={"podGroupName": "pg"}
    )
    assert found.gang == GangRef("ns/pg", is_object=True)


def test_what_says_whether_a_pod_evicts_and_may_be_evicted():
    assert rules().preempts
    assert not rules(preemptionPolicy="Never").preempts
    assert not rules().is_mirror
    assert rules(annotations={"kubernetes.io/config.mirror": "x"}).is_mirror
