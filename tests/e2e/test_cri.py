"""A real agent before a real containerd. SUITE=trixie takes an older one."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import allowed_cpus
from tests.e2e.cri_agent import CriAgent, pod
from tests.e2e.peers.build import NUMA_PLUGIN, built
from tests.real import containerd as real

from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement
from numalign.adapters.cri.groups import PodGroups
from numalign.adapters.cri.runtime import CriRuntime
from numalign.adapters.local.paths import cgroup_parent
from numalign.apps.agent.runtimes.containers import owner_of
from numalign.core.errors import PeerError
from numalign.core.values.sets import CpuSet, parse_list

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one to reserve and one to give"
    ),
]
FOREVER = "sleep 100000"


# Where it runs.


def test_a_pod_with_cpus_of_its_own_runs_where_the_agent_says_and_the_kernel_agrees(agent):
    assert agent.apply(pod("own", cpu=1, script=FOREVER)).status_code == 201
    agent.until_phase("own", "Running")
    placed = agent.placed("own")
    assert placed["exclusive"]
    assert agent.value("own", "cpuset.cpus") == placed["cpus"] == allowed_cpus(agent.pid("own"))
    assert agent.value("own", "cpuset.mems") == str(placed["memory"][0]["nodes"][0])
    command = [sys.executable, "-m", "numalign", "get", "cpus", "-o", "json"]
    command += ["--socket", str(agent.state / "agent.sock")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [row] = [row for row in json.loads(said) if row["containers"]]
    assert (row["use"], row["cpus"], row["containers"]) == (
        "exclusive", placed["cpus"], ["default/own/c"],
    )  # fmt: skip
    [container] = agent.containers()
    assert agent.status("own")["containerID"] == f"containerd://{container.id}"


def test_the_runtime_gets_the_amounts_that_the_kubelet_computes(agent):
    burst = pod("burst", script=FOREVER, memory="64Mi")
    burst["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "250m", "memory": "32Mi"},
        "limits": {"cpu": "500m", "memory": "64Mi"},
    }
    agent.apply(burst)
    agent.apply(pod("best", script=FOREVER, container={"resources": {}}))
    found = {name: _amounts(agent, name) for name in ("burst", "best")}
    agent.delete("burst")
    agent.until(lambda: "burst" not in agent.pod_list(), "room for the next")
    agent.apply(pod("own", cpu=1, script=FOREVER))
    found["own"] = _amounts(agent, "own")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    about = 1000 - 1000 * (32 << 20) // total
    # This containerd gives no score below its own, since not every root may.
    lowest = int(Path(f"/proc/{agent.runtime.process.pid}/oom_score_adj").read_text())
    assert found["own"] == [1024, None, 32 << 20, max(-997, lowest)]
    assert found["burst"][:3] == [256, 50_000, 64 << 20]
    assert abs(found["burst"][3] - about) <= 1  # the machine's memory is read from its nodes
    assert found["best"] == [2, None, None, 1000]


def _amounts(agent, name):
    agent.until_phase(name, "Running")
    return [_amount(agent, name, what) for what in ("shares", "quota", "limit", "oom")]


def _amount(agent, name, what):
    if what == "oom":
        return int(Path(f"/proc/{agent.pid(name)}/oom_score_adj").read_text())
    is_v1 = agent.file(name, "memory.limit_in_bytes").exists()
    if what == "limit":
        text = agent.value(name, "memory.limit_in_bytes" if is_v1 else "memory.max")
        return None if text == "max" or int(text) >= 2**62 else int(text)
    if what == "quota":
        text = agent.value(name, "cpu.cfs_quota_us" if is_v1 else "cpu.max").split()[0]
        return None if text in {"max", "-1"} else int(text)
    if not is_v1:
        pytest.skip("shares are a file of cgroup v1")
    return int(agent.value(name, "cpu.shares"))


def test_the_shared_pool_moves_at_once_and_back(agent):
    agent.apply(pod("shared", script=FOREVER))
    agent.until_phase("shared", "Running")
    before = parse_list(agent.value("shared", "cpuset.cpus"))
    assert before == CpuSet.of(os.sched_getaffinity(0)).mask
    agent.apply(pod("own", cpu=1, script=FOREVER))
    agent.until_phase("own", "Running")
    taken = parse_list(agent.value("own", "cpuset.cpus"))
    assert parse_list(agent.value("shared", "cpuset.cpus")) == before & ~taken
    agent.delete("own")
    agent.until(lambda: "own" not in agent.pod_list(), "the pod to be gone")
    agent.until(
        lambda: parse_list(agent.value("shared", "cpuset.cpus")) == before, "the pool to be whole"
    )


def test_pods_that_start_while_the_pool_moves_end_up_where_they_belong(agent):
    for number in range(4):
        agent.apply(pod(f"shared{number}", script=FOREVER))
    agent.apply(pod("own", cpu=1, script=FOREVER))
    agent.until(
        lambda: all(p["status"]["phase"] == "Running" for p in agent.pod_list().values()), "all"
    )
    taken = parse_list(agent.value("own", "cpuset.cpus"))
    for number in range(4):
        found = parse_list(agent.value(f"shared{number}", "cpuset.cpus"))
        assert found
        assert not found & taken


def test_drift_is_repaired_whoever_caused_it(runtime):
    with CriAgent(runtime, reconciles=True) as agent:
        agent.apply(pod("own", cpu=1, script=FOREVER))
        agent.until_phase("own", "Running")
        file, wanted = agent.file("own", "cpuset.cpus"), agent.placed("own")["cpus"]
        assert wanted == "1"
        file.write_text("0")
        agent.until(lambda: file.read_text().strip() == wanted, "the file to be repaired")
        [container] = agent.containers()
        agent.asked(lambda client: client.place(container.id, CpuSet.of([0]), None))
        assert file.read_text().strip() == "0"
        agent.until(lambda: file.read_text().strip() == wanted, "the update to be undone")
        report = agent.asked(lambda client: client.report(container.id))
        assert report.cpus == wanted
        outside = Path("/sys/fs/cgroup/cpuset/cgroup.procs")
        if outside.exists():
            outside.write_text(str(agent.pid("own")))
            agent.until(
                lambda: file.parent == agent.file("own", "cpuset.cpus").parent, "the way back"
            )
        agent.until(lambda: agent.said().count("drift_repaired") >= 3, "it to be told")


def test_a_refusal_by_the_kernel_is_told_in_its_own_words(agent):
    agent.apply(pod("own", cpu=1, script=FOREVER))
    agent.until_phase("own", "Running")
    agent.stop()  # so that nobody mends it

    async def pinned(client):
        tree = CgroupTree.detect(
            Path("/sys/fs/cgroup"),
            Path("/proc/self/mountinfo").read_text(),
            cgroup_parent(agent.state),
        )
        owner = owner_of(agent.state)
        runtime = CriRuntime(client, "x", PodGroups(tree, []), owner, log_path=lambda u, c: Path())
        [running] = await runtime.adopt()
        key = running.pod_uid, running.container
        await runtime.pin_all({key: CpusetPlacement(CpuSet.of([0]))})
        with pytest.raises(PeerError) as caught:
            await runtime.pin_all({key: CpusetPlacement(CpuSet.of([4000]))})
        return running.pid, str(caught.value)

    pid, text = agent.asked(pinned)
    assert "UpdateContainerResources" in text
    assert "cpuset.cpus" in text
    assert allowed_cpus(pid) == "0", "the last good value stays"


# Status.


def test_init_containers_and_sidecars_run_in_order(agent):
    found = pod("many", script="cat /room/a /room/b; sleep 100000")
    mount = {"volumeMounts": [{"name": "work", "mountPath": "/room"}]}
    main = found["spec"]["containers"][0]
    main |= mount
    found["spec"]["volumes"] = [{"name": "work", "emptyDir": {}}]
    first = {**main, "name": "first", "command": ["/bin/sh", "-c", "echo one > /room/a"]}
    side = {
        **main,
        "name": "side",
        "command": ["/bin/sh", "-c", "echo two > /room/b; sleep 1000"],
    }
    found["spec"]["initContainers"] = [first, {**side, "restartPolicy": "Always"}]
    agent.apply(found)
    agent.until_phase("many", "Running")
    assert agent.status("many", "first")["state"]["terminated"]["exitCode"] == 0
    assert "running" in agent.status("many", "side")["state"]
    assert len(agent.sandboxes()) == 1
    agent.until(lambda: agent.logs("many", "-c", "c").startswith("one\n"), "the output")
    uid = agent.uid("many")
    assert (agent.state / "volumes" / uid / "work" / "a").read_text() == "one\n"
    agent.delete("many")
    agent.until(lambda: not agent.sandboxes(), "the sandbox to be gone")
    assert not (agent.state / "volumes" / uid).exists()


def test_exit_codes_and_restart_policies_are_kept(agent):
    agent.apply(pod("never", script="exit 7", restartPolicy="Never"))
    agent.apply(pod("fine", script="exit 0", restartPolicy="OnFailure"))
    agent.apply(pod("again", script="exit 3", restartPolicy="OnFailure"))
    agent.until_phase("never", "Failed")
    agent.until_phase("fine", "Succeeded")
    assert agent.status("never")["state"]["terminated"]["exitCode"] == 7
    agent.until(lambda: agent.status("again")["restartCount"] >= 2, "two restarts")
    assert agent.status("again")["lastState"]["terminated"]["exitCode"] == 3
    # Of a pod that has ended no process is left, and of one that restarts one container only.
    agent.until(lambda: _ready(agent) == {"again"}, "the sandboxes of ended pods to stop")
    agent.until(lambda: sum(c.name == "c" for c in agent.containers()) <= 3, "the old ones to go")


def _ready(agent):
    return {one.name for one in agent.sandboxes() if one.is_ready}


def test_a_container_that_runs_out_of_memory_says_so(agent):
    script = "x=a; while true; do x=$x$x; done"
    agent.apply(pod("hungry", script=script, memory="16Mi", restartPolicy="Never"))
    agent.until_phase("hungry", "Failed")
    ended = agent.status("hungry")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_command_that_is_not_there_is_told_and_tried_again(agent):
    agent.apply(pod("a", command=("/no/such/program",)))
    agent.until(lambda: agent.status("a")["restartCount"] >= 1, "the second try")
    agent.until(lambda: "no such file" in agent.waiting("a").get("message", ""), "the reason")


def test_logs_are_plain_text_and_outlive_a_restart_of_the_container(agent):
    agent.apply(pod("talks", script="echo out; echo err >&2; exit 1", restartPolicy="OnFailure"))
    agent.until(lambda: agent.status("talks")["restartCount"] >= 2, "two ends")
    lines = agent.logs("talks").splitlines()
    assert sorted(lines[:2]) == ["err", "out"]
    assert lines.count("out") >= 2
    followed = pod("later", script="sleep 1; echo now", restartPolicy="Never")
    agent.apply(followed)
    assert agent.logs("later", "-f") == "now\n"


def test_a_log_that_grows_too_long_is_rotated(agent):
    script = "dd if=/dev/zero bs=1048576 count=16 2>/dev/null | cat; sleep 100000"
    agent.apply(pod("long", script=script))
    agent.until_phase("long", "Running")
    logs = agent.state / "logs" / agent.uid("long")
    agent.until((logs / "c.log.1").exists, "the log to be rotated")
    agent.until((logs / "c.log").exists, "a fresh log")


def test_a_deleted_pod_leaves_nothing_behind(agent):
    agent.apply(pod("a", cpu=1, script=FOREVER))
    agent.apply(pod("b", script="trap 'exit 0' TERM; while true; do sleep 0.1; done"))
    agent.until_phase("a", "Running")
    agent.until_phase("b", "Running")
    uids = [agent.uid("a"), agent.uid("b")]
    assert {path.name for path in agent.cgroups()} == {f"pod{uid}" for uid in uids}
    agent.delete("a")
    agent.delete("b")
    agent.until(lambda: not agent.pod_list(), "the pods to be gone")
    agent.until(lambda: not agent.sandboxes() and not agent.containers(), "the runtime to be empty")
    agent.until(lambda: not agent.cgroups(), "the cgroups to be gone")
    for uid in uids:
        assert not (agent.state / "logs" / uid).exists()


def test_the_same_uid_can_come_back_at_once(agent):
    found = pod("a", script=FOREVER)
    found["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    for _ in range(3):
        agent.apply(found)
        agent.until_phase("a", "Running")
        agent.delete("a")
        agent.until(lambda: not agent.pod_list(), "the pod to be gone")
    agent.apply(found)
    agent.until_phase("a", "Running")
    time.sleep(1)
    assert _ready(agent) == {"a"}


# Images.


def test_an_image_that_is_missing_keeps_the_pod_waiting_with_the_kubelets_reasons(agent):
    nowhere = "localhost:1/no/such:1"
    agent.apply(pod("pull", image=nowhere, restartPolicy="Never"))
    agent.until(lambda: agent.waiting("pull").get("reason") == "ErrImagePull", "the first failure")
    assert nowhere in agent.waiting("pull")["message"]
    agent.until(lambda: agent.waiting("pull").get("reason") == "ImagePullBackOff", "the back-off")
    agent.apply(pod("never", image=nowhere, container={"imagePullPolicy": "Never"}))
    agent.apply(pod("none", image=""))
    agent.until(lambda: agent.waiting("never").get("reason") == "ErrImageNeverPull", "its reason")
    agent.until(lambda: agent.waiting("none").get("reason") == "InvalidImageName", "its reason")
    assert {p["status"]["phase"] for p in agent.pod_list().values()} == {"Pending"}
    assert agent.status("pull")["restartCount"] == 0
    assert not agent.sandboxes()
    agent.delete("pull")
    agent.until(lambda: "pull" not in agent.pod_list(), "the pod to be gone")


def test_a_pod_starts_once_its_image_is_there(agent):
    image = "localhost/late:1"
    agent.runtime.ctr("images", "rm", image)
    agent.apply(pod("late", image=image, script=FOREVER, container={"imagePullPolicy": "Never"}))
    agent.until(lambda: agent.waiting("late").get("reason") == "ErrImageNeverPull", "its reason")
    done = agent.runtime.ctr("images", "tag", real.BUSYBOX, image)
    assert done.returncode == 0, done.stderr
    agent.until_phase("late", "Running")
    assert agent.status("late")["restartCount"] == 0


# What is handed on.


def test_volumes_users_and_variables_reach_the_container(agent, tmp_path):
    (tmp_path / "given").write_text("by the host\n")
    found = pod(
        "full",
        script="cat /host/given; id -u; echo $(GREETING) $HOME_TOWN; ls /proc/self/cwd; sleep 1000",
        container={
            "env": [
                {"name": "NAME", "value": "world"},
                {"name": "GREETING", "value": "hello $(NAME)"},
                {"name": "HOME_TOWN", "value": "$(MISSING)"},
            ],
            "workingDir": "/host",
            "volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": True}],
            "securityContext": {"runAsUser": 1234, "capabilities": {"drop": ["ALL"]}},
        },
        volumes=[{"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}}],
    )
    tmp_path.chmod(0o755)
    agent.apply(found)
    agent.until_phase("full", "Running")
    wanted = ["by the host", "1234", "hello world $(MISSING)", "given"]
    agent.until(lambda: agent.logs("full").splitlines() == wanted, f"{wanted}")
    status = Path(f"/proc/{agent.pid('full')}/status").read_text()
    assert "CapBnd:\t0000000000000000" in status


@pytest.mark.parametrize(
    ("container", "spec", "words"),
    [
        ({"securityContext": {"runAsNonRoot": True}}, {}, "runAsNonRoot is set"),
        ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, {}, "found no such volume"),
        (
            {"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
            {"volumes": [{"name": "x", "configMap": {"name": "y"}}]},
            "start the agent with --objects-dir",
        ),
        (
            {"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
            {"volumes": [{"name": "x", "hostPath": {"path": "/etc", "type": "File"}}]},
            "expected File",
        ),
    ],
)
def test_what_cannot_be_given_is_told_and_the_container_is_not_run_without(
    agent, container, spec, words
):
    agent.apply(pod("a", script=FOREVER, container=container, **spec))
    agent.until(
        lambda: agent.waiting("a").get("reason") == "CreateContainerConfigError", "the reason"
    )
    assert words in agent.waiting("a")["message"]
    assert not agent.containers()


def test_what_is_never_given_is_refused_when_the_pod_is_submitted(agent):
    wish = {"securityContext": {"procMount": "Unmasked"}}
    agent.apply(pod("a", script=FOREVER, container=wish))
    agent.until_phase("a", "Failed")
    status = agent.pod_list()["a"]["status"]
    assert status["reason"] == "FieldNotSupported"
    assert "spec.containers[c].securityContext.procMount" in status["message"]
    assert not agent.containers()


def test_env_mount_device_and_cdi_of_a_device_plugin_are_seen_in_the_container(
    agent, runtime, pytestconfig
):
    plugin = built(NUMA_PLUGIN, pytestconfig)
    cdi = {
        "cdiVersion": "0.5.0",
        "kind": "vendor.com/gpu",
        "devices": [{"name": "g0", "containerEdits": {"env": ["FROM_CDI=g0"]}}],
    }
    (runtime.directory / "cdi" / "vendor.json").write_text(json.dumps(cdi))
    # The plugin gives this directory as a mount, and a copy of /dev/null as the device.
    marker = Path("/tmp/numalign-seen-in-container")
    marker.write_text("")
    command = [str(plugin), str(agent.state / "device-plugins"), "vendor.com/gpu", "g0=0"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        agent.until(lambda: "vendor.com/gpu" in agent.request("GET", "/node").text, "the device")
        found = pod("gpu", script="env; ls -l /dev/g0; ls /run/g0; sleep 1000")
        found["spec"]["containers"][0]["resources"]["limits"]["vendor.com/gpu"] = "1"
        agent.until(lambda: agent.apply(found).status_code in {200, 201}, "the pod to be admitted")
        agent.until_phase("gpu", "Running")
        agent.until(lambda: marker.name in agent.logs("gpu"), "the mount in the container")
        said = agent.logs("gpu")
        assert "NUMAPLUGIN_DEVICES=g0" in said
        assert "FROM_CDI=g0" in said
        [line] = [line for line in said.splitlines() if line.endswith("/dev/g0")]
        assert line.startswith("c")
        assert "1,   3" in line  # /dev/null
        [container] = agent.containers()
        info = json.loads(runtime.ctr("containers", "info", container.id).stdout)
        [kept] = [value for key, value in info["Extensions"].items() if "metadata" in key]
        assert '"numaplugin/count":"1"' in base64.b64decode(kept["value"]).decode()
    finally:
        running.kill()
        running.communicate()
        marker.unlink()


def test_a_pod_has_a_network_of_its_own_where_the_runtime_has_one_to_give():
    show = "hostname; ls /sys/class/net; sleep 1000"
    with (
        real.containerd(real.asked_suites()[0], network=True) as networked,
        CriAgent(networked) as agent,
    ):
        assert "pods get the network of the host" not in agent.said()
        agent.apply(pod("own", script=show))
        agent.apply(pod("hosts", script=show, hostNetwork=True))
        agent.until_phase("own", "Running")
        agent.until_phase("hosts", "Running")
        agent.until(lambda: agent.logs("own").split() == ["own", "eth0", "lo"], "its network")
        agent.until(lambda: os.uname().nodename in agent.logs("hosts"), "the host's name")
        devices = {path.name for path in Path("/sys/class/net").iterdir()}
        assert set(agent.logs("hosts").split()[1:]) & devices


def test_without_one_it_gets_the_hosts_and_that_is_told(agent):
    agent.apply(pod("a", script="hostname; sleep 1000"))
    agent.until_phase("a", "Running")
    agent.until(lambda: agent.logs("a").split() == [os.uname().nodename], "the host's name")
    assert "pods get the network of the host" in agent.said()
    assert "host_network_given" in agent.said()


def test_other_tools_find_the_pod_by_the_labels_of_kubernetes(agent):
    found = pod("named", script=FOREVER)
    found["metadata"] |= {"namespace": "team", "labels": {"app": "web"}}
    agent.apply(found)
    agent.until_phase("named", "Running")
    labels = {"app": "web", "io.kubernetes.pod.namespace": "team"}
    [sandbox] = agent.asked(lambda client: client.sandboxes(labels))
    assert (sandbox.name, sandbox.namespace, sandbox.uid) == ("named", "team", agent.uid("named"))
    labels = {"io.kubernetes.container.name": "c", "io.kubernetes.pod.name": "named"}
    [container] = agent.asked(lambda client: client.containers(labels))
    assert (container.uid, container.attempt) == (agent.uid("named"), 0)
