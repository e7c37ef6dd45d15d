"""Texts of the kubelet that mislead are followed by what to do; all others stay as they are."""

import pytest

from numalign.core.errors import StartError
from numalign.core.kubelet.start_advice import advice_on, with_advice
from numalign.core.kubelet.topology.policy import MAX_NODES
from numalign.wire.checkpoints import state_files


def test_a_state_file_of_the_wrong_form_is_told_apart_from_the_configuration(machine_settings):
    data = {"cpu_manager_state": b'{"policyName":"static","defaultCpuSet":5,"checksum":1}'}
    [fault] = state_files.decoded(data, machine_settings, root="").faults.values()
    text = with_advice(str(fault))
    assert text.startswith(str(fault))
    assert text.endswith("Drain the host, move the file away and start again.")


def test_too_many_numa_nodes_are_followed_by_the_option_that_allows_them():
    error = StartError("topology_manager", "unsupported on machines with more than 8 NUMA Nodes")
    assert f"topologyManagerPolicyOptions: {MAX_NODES} to" in with_advice(f"x: {error}")


@pytest.mark.parametrize("text", ["", 'unknown policy: "x"', "json: unexpected end", "a."])
def test_other_texts_stay_as_they_are(text):
    assert (advice_on(text), with_advice(text)) == ("", text)


@pytest.fixture
def machine_settings():
    from tests.core.hosts import settings

    return settings("best-effort", safe=True, reserved="0-1")
