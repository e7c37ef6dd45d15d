"""A real agent on this host: real processes, real pinning, real crashes."""

import json
import os
import stat
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, allowed_cpus, manifest

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

TWO_CPUS = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one to reserve and one to give"
)


@pytest.fixture
def agent():
    with AgentProcess() as found:
        yield found


def write(agent, name, content):
    hidden = agent.pods / f".{name}"
    hidden.write_text(content if isinstance(content, str) else json.dumps(content))
    hidden.rename(agent.pods / name)


@TWO_CPUS
def test_a_pinned_pod_runs_where_the_agent_says_and_the_kernel_agrees(agent):
    write(agent, "own.json", manifest("own", cpu=1))
    write(agent, "shared.json", manifest("shared"))
    agent.until_phase("own", "Running")
    agent.until_phase("shared", "Running")
    state = json.loads((agent.state / "cpu_manager_state").read_text())
    [entry] = state["entries"].values()
    pids = {uid: pid for (uid, _), pid in agent.records().items()}
    pods = agent.pod_list()
    own = pids[pods["own"]["metadata"]["uid"]]
    shared = pids[pods["shared"]["metadata"]["uid"]]
    assert allowed_cpus(own) == entry["c"]
    assert allowed_cpus(shared) == state["defaultCpuSet"]


def test_a_changed_manifest_replaces_the_pod_and_a_removed_one_ends_it(agent):
    write(agent, "a.json", manifest("a"))
    agent.until_phase("a", "Running")
    first = agent.pod_list()["a"]["metadata"]["uid"]
    write(agent, "a.json", manifest("a", command=("sleep", "2000")))
    agent.until(
        lambda: agent.phase("a") == "Running" and agent.pod_list()["a"]["metadata"]["uid"] != first,
        "the new pod",
    )
    (agent.pods / "a.json").unlink()
    agent.until(lambda: not agent.pod_list(), "the pod to be gone")
    assert not agent.records()


@TWO_CPUS
def test_containers_outlive_a_kill_and_are_taken_up_where_they_are(agent):
    write(agent, "own.json", manifest("own", cpu=1))
    agent.until_phase("own", "Running")
    before = agent.records()
    files = {
        n: (agent.state / n).read_bytes() for n in ("cpu_manager_state", "memory_manager_state")
    }
    agent.kill()
    assert agent.records() == before, "the process outlives the agent"
    agent.start()
    agent.until_phase("own", "Running")
    assert agent.records() == before
    assert files == {n: (agent.state / n).read_bytes() for n in files}


def test_an_exit_code_is_known_even_if_the_agent_was_away(agent, tmp_path):
    gate = tmp_path / "gate"
    script = f"until test -e {gate}; do sleep 0.05; done; exit 7"
    write(agent, "a.json", manifest("a", command=("sh", "-c", script), restartPolicy="Never"))
    agent.until_phase("a", "Running")
    agent.kill()
    gate.touch()
    agent.until(lambda: not agent.records(), "the process to end")
    agent.start()
    agent.until_phase("a", "Failed")
    [status] = agent.pod_list()["a"]["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 7


def test_a_refused_pod_says_why_with_the_kubelets_words(agent):
    answer = agent.apply(manifest("big", cpu=1000))
    assert answer.status_code == 422
    status = agent.pod_list()["big"]["status"]
    assert status["phase"] == "Failed"
    assert status["message"].startswith("Pod was rejected: Allocate failed due to not enough cpus")


def test_a_command_that_is_not_there_is_told_and_tried_again_later(agent):
    agent.apply(manifest("a", command=("no-such-program",)))
    agent.until(
        lambda: (
            agent.pod_list()["a"]["status"]["containerStatuses"][0]["state"]
            .get("waiting", {})
            .get("reason")
            == "CrashLoopBackOff"
        ),
        "the back-off",
    )


def test_sockets_and_files_are_for_their_owner_only(agent):
    for path in ("agent.sock", "device-plugins/kubelet.sock", "pod-resources/kubelet.sock"):
        assert stat.S_IMODE((agent.state / path).stat().st_mode) == 0o600, path
    for name in ("cpu_manager_state", "memory_manager_state", "pods.json"):
        agent.apply(manifest("a"))
        assert stat.S_IMODE((agent.state / name).stat().st_mode) == 0o600


@TWO_CPUS
def test_an_agent_with_another_state_directory_leaves_the_containers_of_the_first_alone(agent):
    write(agent, "own.json", manifest("own", cpu=1))
    agent.until_phase("own", "Running")
    [pid] = agent.records().values()
    with AgentProcess() as other:
        other.stop()
    assert list(agent.records().values()) == [pid]
    assert agent.phase("own") == "Running"


@pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root")
def test_two_agents_do_not_share_their_cgroups():
    name = f"numalign-test-{os.getpid()}"
    config = f"apiVersion: numalign.io/v1\nkind: AgentConfiguration\ncgroupParent: {name}\n"
    with AgentProcess(config=config) as first:
        if "without cgroups" in first.said():
            pytest.skip("no cgroups here")
        second = AgentProcess(config=config)
        second.start(wait=False)
        assert second.process.wait(60) == 2
        assert "another agent keeps its containers in these cgroups" in second.said()
        second.clean_up()
        assert first.stop() == 0
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{name}")), "the groups are gone with it"


def test_two_agents_do_not_share_a_state_directory(agent):
    second = AgentProcess()
    try:
        second.state = agent.state
        second.start(wait=False)
        assert second.process.wait(60) == 1
        assert "another agent runs with this state directory" in second.said()
    finally:
        second.state = second.root / "s"
        second.clean_up()


# Bad input.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("binary.yaml", "\x00\x01\x02"),
        ("huge.yaml", "a: " + "x" * (10 << 20)),
        ("bomb.yaml", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]"),
        ("deep.yaml", "[" * 5000),
        ("service.yaml", "kind: Service\nmetadata: {name: x}"),
        ("negative.yaml", json.dumps(manifest("negative", cpu=-1))),
    ],
)
def test_a_bad_manifest_is_told_and_the_agent_lives_on(agent, name, content):
    write(agent, name, content)
    write(agent, "good.json", manifest("good"))
    agent.until_phase("good", "Running")
    assert "manifest_refused" in agent.said()
    assert name in agent.said()
    assert set(agent.pod_list()) == {"good"}


def damaged(agent, name, change):
    write(agent, "a.json", manifest("a", cpu=1))
    agent.until((agent.state / name).exists, "the state to be saved")
    agent.until(lambda: agent.pod_list().get("a") is not None, "the pod")
    agent.kill()
    path = agent.state / name
    path.write_bytes(change(path.read_bytes()))
    agent.start(wait=False)
    code = agent.process.wait(60)
    return code, agent.said()


@pytest.mark.parametrize("name", ["cpu_manager_state", "memory_manager_state", "pods.json"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_state_file_is_told_and_nothing_is_lost(agent, name, damage):
    def change(data):
        if damage == "cut":
            return data[: len(data) // 2]
        middle = data.index(b"policyName") + 14 if b"policyName" in data else len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]

    code, said = damaged(agent, name, change)
    assert code == 1
    assert name in said
    assert "numalign state check" in said
    assert "Traceback" not in said


def test_a_damaged_file_of_devices_is_told_with_its_name():
    config = (
        "apiVersion: numalign.io/v1\nkind: AgentConfiguration\n"
        "devices: [{resource: example.com/fpga, devices: [{id: f0, nodes: [0]}]}]\n"
    )
    with AgentProcess(config=config) as agent:
        code, said = damaged(
            agent, "device-plugins/kubelet_internal_checkpoint", lambda data: data[:-9]
        )
        assert code == 1
        assert "kubelet_internal_checkpoint: " in said
        assert "numalign state check" in said


def test_a_policy_change_against_old_state_says_what_is_wrong():
    with AgentProcess() as agent:
        agent.stop()
        (agent.root / "none.yaml").write_text(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        )
        agent.arguments = ["--config", str(agent.root / "none.yaml")]
        agent.start(wait=False)
        assert agent.process.wait(60) == 1
        assert (
            'configured policy "none" differs from state checkpoint policy "static"' in agent.said()
        )


def test_a_state_directory_that_cannot_be_written_is_told():
    agent = AgentProcess()
    try:
        agent.state.write_text("a file, not a directory")
        agent.start(wait=False)
        assert agent.process.wait(60) in {1, 2}
        assert "Traceback" not in agent.said()
    finally:
        agent.state.unlink()
        agent.clean_up()


def test_when_the_state_cannot_be_saved_the_pod_is_refused_and_the_agent_lives(agent):
    # A directory in the way of the temporary file is a disk that refuses, for root too.
    (agent.state / ".pods.json.tmp").mkdir()
    answer = agent.apply(manifest("a"))
    assert answer.status_code >= 400
    assert answer.json()["reason"] == "StateNotSaved"
    assert agent.request("GET", "/readyz").status_code == 503
    (agent.state / ".pods.json.tmp").rmdir()
    assert agent.apply(manifest("b")).status_code == 201
    agent.until_phase("b", "Running")
    assert agent.phase("a") is None
