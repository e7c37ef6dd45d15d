"""``numalign explain`` and ``numalign advise`` on the command line."""

import json
import os
import pty
import signal
import subprocess

import pytest
import yaml
from tests.cli import policy_examples
from tests.cli.conftest import PYTHON, environment, started

from numalign.cli.main import main
from numalign.core.settings import Version
from numalign.wire.kubelet import config as kubelet_config

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
"""


def manifest(name, cpu, memory="1Gi"):
    limits = {"cpu": str(cpu), "memory": memory}
    spec = {"containers": [{"name": "app", "image": "none", "resources": {"limits": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def ask(tmp_path, capsys, monkeypatch):
    """Asks a small host about pods; exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")
    config = tmp_path / "kubelet.yaml"
    config.write_text(KUBELET)

    def call(command, pods, *more):
        path = tmp_path / "pods.json"
        path.write_text("\n---\n".join(map(json.dumps, pods)))
        source = ("--on", "2s:1n:8c:2t", "--kubelet-config", str(config))
        code = main([command, "-f", str(path), *source, *more])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_a_refused_pod_gives_a_sentence_first_and_exit_code_1(ask):
    code, out, _ = ask("explain", [manifest("big", 20)], "--details")
    assert code == 1
    assert out.startswith("Pod default/big is refused: container app asks for 20 exclusive CPUs;")
    for part in (
        "The kubelet's words: TopologyAffinityError",
        "failed at policy of container app, cpu_manager, cpu",
        "NODES  cpu        memory",
        "node 0  [R...............]",
        " 1. let container app ask for 16 CPUs instead of 20 (4 less)",
        "set topologyManagerPolicy: best-effort",
        "largest that still fits",
    ):
        assert part in out


def test_an_admitted_pod_is_drawn_into_the_host_and_exits_0(ask):
    code, out, _ = ask("explain", [manifest("small", 4)], "-v")
    assert code == 0
    assert "is admitted with 4 CPUs of its own on NUMA node 0" in out
    assert "node 0  [RPP......PP.....]" in out
    assert "100% local, mean 10, worst 10" in out
    assert "not measured" in out
    assert "what would let it in" not in out


def test_without_details_the_cause_and_three_changes_are_told(ask):
    code, out, _ = ask("explain", [manifest("big", 20)])
    assert code == 1
    assert out.startswith("Pod default/big is refused: container app asks for 20 exclusive CPUs;")
    numbered = [line[:3] for line in out.splitlines() if line[1:3] in {"1.", "2.", "3.", "4."}]
    assert numbered == [" 1.", " 2.", " 3."]
    assert out.endswith("--details shows 3 more changes, the hints and the host.\n")
    assert "NODES" not in out and "node 0  [" not in out


def test_replicas_with_the_same_answer_are_told_together(ask):
    pods = [manifest(f"web-{number}", 12) for number in range(4)]
    code, out, _ = ask("explain", pods)
    assert code == 1
    assert out.startswith("2 of 4 pods are admitted: default/web-0 and web-1.\n\n2 of 4 pods are ")
    assert "2 of 4 pods are refused for the same reason, default/web-2 and web-3:" in out
    assert out.count("The kubelet's words") == 1


def test_a_resource_that_nothing_offers_is_said_and_not_taken_from_the_pod(ask):
    trainer = manifest("train", 4)
    trainer["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    code, out, _ = ask("explain", [trainer])
    assert code == 1
    assert "no device plugin has registered" in " ".join(out.split())
    assert "--device nvidia.com/gpu=COUNT@NODE" in " ".join(out.split())
    assert "ask for no nvidia.com/gpu" not in out


def test_later_pods_meet_the_host_as_earlier_ones_left_it(ask):
    code, out, _ = ask(
        "explain", [manifest("a", 12), manifest("b", 12), manifest("c", 12)], "-o", "json"
    )
    first, second, third = json.loads(out)
    assert code == 1
    assert (first["admitted"], second["admitted"], third["admitted"]) == (True, True, False)
    leaving = [c for c in third["changes"] if c["kind"] == "leave"]
    assert {len(change["leaving"]) for change in leaving} == {1}
    assert third["demands"][0]["nodes"][0]["free"] == 3


def test_json_and_yaml_say_the_same(ask):
    _, text, _ = ask("explain", [manifest("big", 20)], "-o", "json")
    _, other, _ = ask("explain", [manifest("big", 20)], "-o", "yaml")
    assert json.loads(text) == yaml.safe_load(other)


def test_the_search_can_be_left_out(ask):
    _, out, _ = ask("explain", [manifest("big", 20)], "--no-search")
    assert "what would let it in" not in out
    assert out.startswith("Pod default/big is refused")


def test_bad_input_is_one_line_and_exit_code_2(ask):
    code, out, err = ask("explain", [{"apiVersion": "v1", "kind": "Secret"}])
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_the_examples_say_what_their_page_says():
    assert policy_examples.PAGE.read_text() == policy_examples.text()


# Advice.


def test_advice_is_a_table_a_recommendation_and_lines_to_copy(ask):
    code, out, _ = ask("advise", [manifest("wide", 20), manifest("small", 4)])
    assert code == 0
    assert out.splitlines()[0].split()[:4] == ["POLICY", "SCOPE", "MEMORY", "ADMITTED"]
    assert "It admits all 2 pods." in out
    assert "  reservedSystemCPUs: 0,16\n" in out
    assert "  - numaNode: 0\n    limits:\n      memory: 100Mi\n" in out
    assert "delete /var/lib/kubelet/cpu_manager_state" in out


def test_advice_that_leaves_pods_out_exits_1_and_names_them(ask):
    code, out, _ = ask("advise", [manifest("huge", 64)])
    assert code == 1
    assert "nothing is recommended" in out
    assert "default/huge" in out


def test_a_device_that_nothing_offers_is_said_and_nothing_is_recommended(ask, tmp_path):
    asked = manifest("net", 2)
    asked["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"] = "1"
    path = tmp_path / "advised.yaml"
    code, out, err = ask("advise", [asked], "-o", "yaml", "--write", str(path))
    assert (code, out) == (1, "")
    assert "no plugin has registered example.com/nic" in err
    assert not path.exists()
    code, out, _ = ask("advise", [asked], "--device", "example.com/nic=1@0")
    assert code == 0
    assert "recommended: the first row" in out


def test_a_file_is_changed_in_place_and_keeps_its_mode_and_all_else(ask, tmp_path):
    path = tmp_path / "kubelet.yaml"
    path.write_text(f"# rack 7\n{KUBELET}clusterDNS: [10.0.0.10]  # coredns\n")
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    code, _, err = ask("advise", [manifest("wide", 20)], "--write", str(link))
    assert code == 0
    assert "changed cpuManagerPolicyOptions, topologyManagerPolicy, reservedSystemCPUs" in err
    new = path.read_text()
    assert new.startswith("# rack 7\napiVersion")
    assert "clusterDNS: [10.0.0.10]  # coredns\n" in new
    assert "topologyManagerPolicy: single-numa-node" not in new
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    code, _, err = ask("advise", [manifest("wide", 20)], "--write", str(path))
    assert "says this already" in err


def test_a_file_that_would_not_start_is_left_as_it_is(ask, tmp_path):
    path = tmp_path / "kubelet.yaml"
    text = KUBELET + "kubeReserved: {memory: 1Gi}\n"
    path.write_text(text)
    good = tmp_path / "good.yaml"
    good.write_text(KUBELET)
    code, _, err = ask(
        "advise", [manifest("wide", 20)], "--write", str(path), "--kubelet-config", str(good)
    )
    assert code == 2
    assert "left as it is" in err
    assert path.read_text() == text


def test_the_recommended_configuration_can_be_written_and_read(ask, tmp_path):
    path = tmp_path / "advised.yaml"
    code, out, _ = ask("advise", [manifest("wide", 20)], "-o", "yaml", "--write", str(path))
    assert code == 0
    assert path.read_text() == out
    config = kubelet_config.load(out, version=Version.V1_36)
    assert config.topology_policy in {"none", "best-effort", "restricted"}
    assert config.reserved_system_cpus == "0,16"


def test_advice_as_json_has_every_trial(ask):
    _, out, _ = ask("advise", [manifest("small", 4)], "-o", "json")
    value = json.loads(out)
    policies = {trial["topologyManagerPolicy"] for trial in value["trials"]}
    assert policies == {"none", "best-effort", "restricted", "single-numa-node"}
    assert value["dropIn"]["kind"] == "KubeletConfiguration"
    assert "clusterDNS" not in value["dropIn"]
    assert value["cost"]["restart"] is bool(value["changes"])
    assert value["complete"]


@pytest.mark.e2e
@pytest.mark.e2e_quick
def test_ctrl_c_shows_what_was_found_so_far(tmp_path):
    """A workload of many pods takes a while; the first Ctrl-C ends the search, not the answer."""
    path = tmp_path / "pods.json"
    path.write_text("\n---\n".join(json.dumps(manifest(f"p{i}", 3)) for i in range(400)))
    args = [*PYTHON, "advise", "-f", str(path), "--on", "epyc-2s-nps4"]
    ours, theirs = pty.openpty()
    with started(
        args, stdout=subprocess.PIPE, stderr=theirs, env=environment(), text=True
    ) as process:
        os.close(theirs)
        shown = b""
        while b"tried" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode in {0, 1}
    assert "The search was stopped" in out
