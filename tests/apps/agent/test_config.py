"""What an operator can tell the agent, and what becomes of it."""

from pathlib import Path

import pytest

from numalign.adapters.sources.discovery import discover
from numalign.apps.agent.config import AgentConfig, load
from numalign.apps.agent.run import read_config, setup_of
from numalign.core.errors import ConfigError
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.machine.synthetic import synthetic_machine

KUBELET = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n"
OURS = "apiVersion: numalign.io/v1\nkind: AgentConfiguration\n"


def unread(name):
    raise AssertionError(f"asked for {name}")


def totals(data, read=unread):
    config = load(data, source="config.yaml", read=read)
    setup, _ = setup_of(config, synthetic_machine("1s:1n:4c:2t"))
    return setup.totals


def test_the_kubelets_number_of_pods_counts_unless_ours_is_given():
    assert totals(OURS.encode())[PODS] == 110
    assert totals(KUBELET)[PODS] == 7
    assert totals(KUBELET + b"podsPerCore: 0\n")[PODS] == 7
    assert totals(KUBELET.replace(b"maxPods: 7", b"podsPerCore: 2"))[PODS] == 16
    both = OURS + "kubeletConfig: kubelet.yaml\n"
    assert totals(both.encode(), lambda _: KUBELET)[PODS] == 7
    assert totals(f"{both}podsMax: 9\n".encode(), lambda _: KUBELET)[PODS] == 9


def test_a_relative_path_begins_at_the_file_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "kubelet.yaml").write_bytes(KUBELET)
    (tmp_path / "etc" / "agent.yaml").write_text(OURS + "kubeletConfig: kubelet.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert read_config(Path("etc/agent.yaml")).kubelet.pods_max == 7


@pytest.mark.parametrize("name", ["vm-2cpu", "xeon-2s-cxl", "epyc-2s-nps4", "gb200"])
def test_without_a_configuration_every_machine_can_be_used(name):
    setup, _ = setup_of(AgentConfig(), discover(name))
    assert setup.host.cpu is not None and setup.host.memory is not None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podsMax: 0", "podsMax: found 0, expected 1 to 10000"),
        ("podsMax: 10001", "podsMax: found 10001, expected 1 to 10000"),
        ("backoffSeconds: 0", "backoffSeconds: found 0, expected more than 0 and at most 300"),
        ("podMax: 5", "unknown field `podMax`"),
    ],
)
def test_a_value_out_of_range_is_told(line, words):
    with pytest.raises(ConfigError, match=r"config\.yaml: ") as caught:
        load(f"{OURS}{line}\n".encode(), source="config.yaml", read=unread)
    assert words in str(caught.value)
