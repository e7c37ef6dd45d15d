"""Only what is ours is taken off, and nothing that somebody changes meanwhile is lost."""

from __future__ import annotations

import json

import pytest

from numalign.core.errors import WireError
from numalign.wire.kubernetes.withdrawal import OUR_GATES, opened_gates

HEAD = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}


def pod(*gates: str) -> bytes:
    spec = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    return json.dumps({"metadata": HEAD, "spec": spec}).encode()


def test_a_pod_without_our_gates_is_left_alone():
    assert opened_gates(pod()) is None
    assert opened_gates(pod("someone/else")) is None


@pytest.mark.parametrize("gate", sorted(OUR_GATES))
def test_our_gate_goes_and_the_gates_of_others_stay(gate):
    found = opened_gates(pod("someone/else", gate))
    assert (found.namespace, found.name, found.gates) == ("shop", "web", (gate,))
    assert found.patch == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "spec": {"schedulingGates": [{"name": "someone/else"}]},
    }


def test_both_gates_go_at_once():
    assert opened_gates(pod(*OUR_GATES)).gates == tuple(sorted(OUR_GATES))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"metadata": 3}', b'{"metadata":{}, "spec": 1}'])
def test_what_is_no_pod_is_refused(text):
    with pytest.raises(WireError, match=r"found no v1\.Pod"):
        opened_gates(text)
