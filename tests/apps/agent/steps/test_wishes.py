"""Pods refused or told for what they ask beside their resources, one event at a time."""

from dataclasses import replace

import pytest
from tests.apps.agent.test_step import Host

from numalign.apps.agent import events as ev
from numalign.apps.agent.model import Phase
from numalign.apps.agent.notes import FieldsNotCarriedOut
from numalign.core.asker import Abilities, Asker
from numalign.wire.pods.manifests import record_of

ALICE = Asker(1000, 1000)


def host(**changes):
    found = Host()
    abilities = Abilities(Asker(0, 0), has_mounts=True)
    found.setup = replace(found.setup, abilities=abilities, **changes)
    return found


def submit(agent, asker=None, container=None, **spec):
    document = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "command": ["x"], **(container or {})}], **spec},
    }
    event = ev.PodSubmitted("a", record_of(document, "test"), "api", 0.0, 1, asker=asker)
    return agent.event(event)


def answer(effects):
    [found] = [effect for effect in effects if isinstance(effect, ev.Answer)]
    return found


def test_a_pod_that_asks_for_what_it_would_not_get_is_refused_and_holds_nothing():
    agent = host(runs_processes=True)
    found = answer(submit(agent, hostUsers=False))
    assert (found.accepted, found.reason) == (False, "FieldNotSupported")
    assert agent.state.pods["a"].phase is Phase.FAILED
    assert agent.state.host.pods == {}


def test_who_decides_only_refuses_nothing_for_it():
    assert answer(submit(host(), hostUsers=False)).accepted


@pytest.mark.parametrize("kind", ["configMapKeyRef", "secretKeyRef"])
def test_a_value_without_a_source_is_refused_unless_it_may_be_missing(kind):
    def env(**more):
        ref = {"name": "n", "key": "k", **more}
        return {"env": [{"name": "A", "valueFrom": {kind: ref}}]}

    agent = host(runs_processes=True)
    assert "--objects-dir" in answer(submit(agent, container=env())).message
    assert answer(submit(host(runs_processes=True), container=env(optional=True))).accepted


def test_only_root_has_containers_run():
    assert answer(submit(host(runs_containers=True))).accepted
    assert not answer(submit(host(runs_containers=True), asker=ALICE)).accepted
    assert answer(submit(host(runs_processes=True), asker=ALICE)).accepted


def test_what_is_not_carried_out_is_told_once():
    agent = host(runs_processes=True)
    effects = submit(agent, nodeSelector={"disk": "ssd"})
    [note] = [
        e.note
        for e in effects
        if isinstance(e, ev.Publish) and isinstance(e.note, FieldsNotCarriedOut)
    ]
    assert note.fields[0].startswith("spec.nodeSelector: ")
    again = agent.event(ev.Tick(1.0))
    assert not [e for e in again if isinstance(e, ev.Publish)]
