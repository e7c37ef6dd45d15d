"""Why a pod was refused is told and kept: bounded, and only of pods that are there."""

from dataclasses import replace

from tests.apps.agent.test_step import Host, box, kinds

from numalign.apps.agent import events as ev
from numalign.apps.agent.steps import admission
from numalign.core.explain.explain import explain


def refused(host, uid, cpu="20"):
    """Refuses a pod and has it explained; what that leads to."""
    [case] = [e.case for e in host.submit(uid, box(cpu=cpu)) if isinstance(e, ev.Explain)]
    return host.event(ev.RefusalExplained(uid, explain(case))), explain(case)


def test_an_explained_refusal_is_told_and_kept():
    host = Host()
    host.now = 7.0
    effects, explanation = refused(host, "p")
    assert kinds(effects) == ["Publish", "SaveRefusals"]
    [kept] = effects[1].refusals.values()
    assert (kept.uid, kept.at, kept.namespace, kept.name) == ("p", 7.0, "default", "p")
    assert (kept.reason, kept.why) == ("UnexpectedAdmissionError", explanation.sentence)
    assert kept.explanation["sentence"] == explanation.sentence
    assert host.state.refusals == effects[1].refusals


def test_only_the_newest_are_kept_and_none_of_pods_that_are_gone():
    host = Host()
    host.setup = replace(host.setup, pods_known_max=1_000)
    for number in range(admission.REFUSALS_MAX + 3):
        refused(host, f"p{number}")
    assert next(iter(host.state.refusals)) == "p3"
    assert len(host.state.refusals) == admission.REFUSALS_MAX
    host.event(ev.PodDeleted("p5", 0.0))
    refused(host, "last")
    assert "p5" not in host.state.refusals and "p4" in host.state.refusals
    assert list(host.state.refusals)[-1] == "last"


def test_what_is_too_long_is_kept_without_its_table_or_as_a_sentence():
    host = Host()
    _, explanation = refused(host, "p")
    long = "x" * admission.EXPLANATION_BYTES_MAX
    host.event(ev.RefusalExplained("p", replace(explanation, facts=(long,))))
    assert host.state.refusals["p"].explanation is None
    assert host.state.refusals["p"].why == explanation.sentence


def test_a_refusal_of_a_pod_that_is_gone_is_forgotten():
    host = Host()
    _, explanation = refused(host, "p")
    host.event(ev.PodDeleted("p", 0.0))
    assert host.event(ev.RefusalExplained("p", explanation)) == []
