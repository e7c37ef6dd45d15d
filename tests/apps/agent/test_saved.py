"""What the agent saves comes back as it was, and damage is told."""

import json
from dataclasses import replace

import msgspec
import pytest

from numalign.apps.agent.model import AgentPod, ContainerStatus, Phase, RunState
from numalign.apps.agent.saved import checksum, dump, load, unusable
from numalign.core.errors import CorruptCheckpointError
from numalign.wire.pods.manifests import core_pod, load_all
from numalign.wire.pods.records import Metadata

MANIFEST = b"""
kind: Pod
metadata: {name: worker, namespace: shop, labels: {a: b}}
spec:
  restartPolicy: OnFailure
  containers:
  - {name: main, command: [sleep, "1"], resources: {limits: {cpu: 2, memory: 1.5Gi}}}
"""


def pods():
    [record] = load_all(MANIFEST, source="x")
    running = ContainerStatus(RunState.RUNNING, pid=7, started_at=1.5, restarts=2)
    pod = AgentPod(
        record,
        core_pod(record, uid="u1"),
        "file:worker.yaml",
        12.25,
        Phase.RUNNING,
        started_at=13.0,
        containers={"main": running},
        awaited=frozenset({("main", "example.com/gpu")}),
    )
    return {"u1": pod}


def test_what_was_saved_comes_back_as_it_was():
    saved = pods()
    assert load(dump(saved)) == saved
    assert load(dump({})) == {}


@pytest.mark.parametrize("position", range(0, 400, 7))
def test_a_flipped_bit_is_told_and_never_believed(position):
    data = bytearray(dump(pods()))
    data[position % len(data)] ^= 4
    try:
        found = load(bytes(data), path="state/pods.json")
    except CorruptCheckpointError as error:
        assert "state/pods.json" in str(error)
    else:
        assert found == pods(), "damage outside the content may go unseen, inside it may not"


def test_a_cut_file_is_told():
    data = dump(pods())
    for length in (0, 1, 30, len(data) - 1):
        with pytest.raises(CorruptCheckpointError):
            load(data[:length])


def test_a_file_of_another_version_is_not_guessed_at():
    data = dump(pods()).replace(b'"version":1', b'"version":2')
    with pytest.raises(CorruptCheckpointError, match="found version 2, expected 1"):
        load(data)


def damaged(change):
    """A file of two pods, the first of them changed as nobody would write it, with its checksum."""
    second = msgspec.structs.replace(pods()["u1"].record, metadata=Metadata(name="other"))
    both = {**pods(), "u2": replace(pods()["u1"], record=second, pod=core_pod(second, uid="u2"))}
    found = json.loads(dump(both))["pods"]
    change(found[0])
    body = json.dumps(found).encode()
    return b'{"version":1,"checksum":"%s","pods":%s}' % (checksum(body).encode(), body)


def with_a_bad_amount(pod):
    pod["record"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1e"}}


def with_a_container_more(pod):
    pod["containers"]["unknown"] = {}


def with_another_type(pod):
    pod["record"]["spec"] = []


def without_a_name(pod):
    pod.clear()


@pytest.mark.parametrize(
    "change", [with_a_bad_amount, with_a_container_more, with_another_type, without_a_name]
)
def test_one_pod_that_cannot_be_taken_up_is_set_aside_and_kept_as_it_is(change):
    data = damaged(change)
    bad, good = load(data).values()
    assert good.pod.name == "other"
    assert good.phase is Phase.RUNNING
    assert (bad.phase, bad.reason) == (Phase.FAILED, "SavedStateUnusable")
    assert bad.pod.name == ("unusable-0" if change is without_a_name else "worker")
    assert "pods.set-aside.json" in bad.message
    assert json.loads(unusable(data)) == json.loads(data)["pods"][:1]
    again = load(dump({p.pod.uid: p for p in (bad, good)}))
    assert unusable(dump(again)) is None, "what was set aside is not set aside anew"
    assert [p.reason for p in again.values()] == ["SavedStateUnusable", ""]
