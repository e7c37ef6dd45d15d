"""What a manifest says of rights, files and health holds for a real process: so says the kernel."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

# Real processes, sockets and time: run by make e2e.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(os.geteuid() != 0, reason="gives rights away, so it needs them"),
]

NOBODY = 65534
MOUNTS = Path(f"/mnt/na-{os.getpid()}")  # of this run: others may test here too
SLEEP = ("sleep", "1000")
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists(sys.argv[2]) else 503)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    root = tmp_path_factory.mktemp("objects")
    for kind, key, value in (("configmaps", "mode", "fast"), ("secrets", "pass", "s3cret")):
        place = root / kind / "default" / "settings"
        place.mkdir(parents=True)
        (place / key).write_text(value)
    (root / "secrets/default/settings/pass").chmod(0o600)
    return root


@pytest.fixture(scope="module")
def agent(objects):
    with AgentProcess(arguments=["--objects-dir", str(objects)]) as found:
        found.root.chmod(0o755)
        yield found


@pytest.fixture(scope="module", autouse=True)
def mount_points(agent):
    """Where volumes go; empty directories that the agent makes, taken away at the end."""
    MOUNTS.mkdir()
    MOUNTS.chmod(0o755)
    yield
    del agent
    for point in [*MOUNTS.iterdir(), MOUNTS]:
        point.rmdir()


def container(name="c", command=SLEEP, **more):
    return {"name": name, "image": "none", "command": list(command), **more}


def shell(text, name="c", **more):
    return container(name, ("sh", "-c", text), **more)


def pod(name, *containers, **spec):
    found = manifest(name, **spec)
    found["spec"]["containers"] = list(containers)
    return found


def applied(agent, document):
    answer = agent.apply(document)
    assert answer.status_code in {200, 201}, answer.text
    return document["metadata"]["name"]


def running(agent, document):
    """The process of the first container of a pod that runs."""
    name = applied(agent, document)
    agent.until_phase(name, "Running")
    uid = agent.pod_list()[name]["metadata"]["uid"]
    first = document["spec"]["containers"][0]["name"]
    agent.until(lambda: (uid, first) in agent.records(), "its process")
    return agent.records()[uid, first]


def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def said(agent, name, container="c"):
    uid = agent.pod_list()[name]["metadata"]["uid"]
    return agent.request("GET", f"/pods/{uid}/log", params={"container": container}).text


def until_said(agent, name, text, container="c"):
    agent.until(lambda: text in said(agent, name, container), f"{name} to say {text}")


def ready(agent, name):
    conditions = agent.pod_list()[name]["status"]["conditions"]
    return {c["type"]: c["status"] for c in conditions}["Ready"] == "True"


# Rights.


def test_a_process_has_the_user_and_groups_that_root_asked_for(agent):
    context = {"runAsUser": 1234, "runAsGroup": 4321, "supplementalGroups": [7, 8], "fsGroup": 9}
    found = status(running(agent, pod("as-user", container(), securityContext=context)))
    assert found["Uid"].split() == ["1234"] * 4
    assert found["Gid"].split() == ["4321"] * 4
    assert found["Groups"].split() == ["7", "8", "9"]


def test_another_user_has_only_its_own_group(agent):
    own = {"runAsUser": NOBODY, "runAsNonRoot": True}
    found = status(running(agent, pod("as-nobody", container(securityContext=own))))
    assert found["Gid"].split() == [str(NOBODY)] * 4
    assert found["Groups"] == ""
    assert int(found["CapEff"], 16) == 0


def test_dropped_capabilities_are_gone_for_good(agent):
    own = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
    found = status(running(agent, pod("no-caps", container(securityContext=own))))
    assert {found[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16}
    assert found["NoNewPrivs"] == "1"


def test_one_capability_of_all_is_kept_also_by_another_user(agent):
    own = {
        "capabilities": {"drop": ["ALL"], "add": ["CAP_NET_BIND_SERVICE"]},
        "runAsUser": NOBODY,
    }
    found = status(running(agent, pod("one-cap", container(securityContext=own))))
    assert {int(found[name], 16) for name in ("CapEff", "CapBnd", "CapAmb")} == {1 << 10}


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"runAsNonRoot": True}, "it would run as root; set runAsUser"),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, "seccompProfile: found type"),
        ({"appArmorProfile": {"type": "RuntimeDefault"}}, "not run without it"),
        ({"capabilities": {"add": ["NO_SUCH"]}}, "expected the name of a capability"),
    ],
)
def test_a_promise_that_a_process_cannot_keep_is_refused(agent, context, words):
    answer = agent.apply(pod("unsafe", container(securityContext=context)))
    assert answer.status_code == 422, answer.text
    assert answer.json()["reason"] == "FieldNotSupported"
    assert words in answer.json()["error"]
    agent.request("DELETE", "/pods", params={"name": "unsafe"})


# Files.


def test_with_a_read_only_root_only_volumes_can_be_written(agent, tmp_path):
    tmp_path.chmod(0o777)
    script = (
        f"touch {tmp_path}/no; echo root $?; touch {MOUNTS}/scratch/yes; echo scratch $?; "
        "echo x >/dev/null; echo null $?; sleep 1000"
    )
    one = shell(
        script,
        securityContext={"readOnlyRootFilesystem": True},
        volumeMounts=[{"name": "s", "mountPath": f"{MOUNTS}/scratch"}],
    )
    applied(agent, pod("read-only", one, volumes=[{"name": "s", "emptyDir": {}}]))
    until_said(agent, "read-only", "null 0")
    text = said(agent, "read-only")
    assert "root 1" in text
    assert "scratch 0" in text
    assert not (tmp_path / "no").exists()
    assert not (MOUNTS / "scratch/yes").exists(), "the mount is seen by nobody else"


def test_a_directory_in_memory_is_shared_by_the_containers_of_a_pod_and_gone_with_it(agent):
    mounts = [{"name": "m", "mountPath": f"{MOUNTS}/shared-memory"}]
    writer = shell(f"echo hello >{MOUNTS}/shared-memory/x; sleep 1000", "w", volumeMounts=mounts)
    place = MOUNTS / "shared-memory"
    wait = f"until cat {place}/x; do sleep 0.05; done; df -T {place}; sleep 1000"
    reader = shell(wait, "r", volumeMounts=mounts)
    volume = {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}
    applied(agent, pod("in-memory", writer, reader, volumes=[volume]))
    until_said(agent, "in-memory", "hello", "r")
    until_said(agent, "in-memory", "tmpfs", "r")
    assert str(agent.state / "volumes") in Path("/proc/self/mountinfo").read_text()
    agent.request("DELETE", "/pods", params={"name": "in-memory"})
    agent.until(lambda: "in-memory" not in agent.pod_list(), "the pod to be gone")
    agent.until(
        lambda: str(agent.state / "volumes") not in Path("/proc/self/mountinfo").read_text(),
        "its memory to be gone",
    )


def test_config_maps_and_secrets_are_files_and_variables(agent):
    mounts = [
        {"name": "c", "mountPath": f"{MOUNTS}/cfg"},
        {"name": "s", "mountPath": f"{MOUNTS}/sec"},
    ]
    env = [
        {"name": "P", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "pass"}}},
        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    script = (
        f"echo $(cat {MOUNTS}/cfg/mode) $(cat {MOUNTS}/sec/pass) $P $N; "
        f"touch {MOUNTS}/cfg/x; echo t $?; sleep 1000"
    )
    volumes = [
        {"name": "c", "configMap": {"name": "settings"}},
        {"name": "s", "secret": {"secretName": "settings", "defaultMode": 0o400}},
    ]
    applied(agent, pod("objects", shell(script, volumeMounts=mounts, env=env), volumes=volumes))
    until_said(agent, "objects", "fast s3cret s3cret objects")
    until_said(agent, "objects", "t 1")


def test_a_path_of_the_host_is_mounted_read_only_and_of_the_kind_that_was_asked_for(
    agent, tmp_path
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_text("content")
    mounts = [{"name": "h", "mountPath": f"{MOUNTS}/host-data", "readOnly": True}]
    script = f"cat {MOUNTS}/host-data/f; touch {MOUNTS}/host-data/x; echo touch $?; sleep 1000"
    volume = {"name": "h", "hostPath": {"path": f"{tmp_path}/data/", "type": "Directory"}}
    applied(agent, pod("host-path", shell(script, volumeMounts=mounts), volumes=[volume]))
    until_said(agent, "host-path", "content")
    until_said(agent, "host-path", "touch 1")
    assert not (tmp_path / "data" / "x").exists()


def test_a_pod_has_the_host_name_that_it_asks_for_and_the_host_keeps_its_own(agent):
    before = socket.gethostname()
    applied(agent, pod("named", shell("hostname; sleep 1000"), hostname="db-0"))
    until_said(agent, "named", "db-0")
    assert socket.gethostname() == before


# Health.


def test_a_container_that_fails_its_liveness_probe_is_started_again(agent):
    probe = {"exec": {"command": ["sh", "-c", "exit 3"]}, "periodSeconds": 1, "failureThreshold": 2}
    name = applied(agent, pod("sick", container(livenessProbe=probe)))
    agent.until(
        lambda: agent.pod_list()[name]["status"]["containerStatuses"][0]["restartCount"] >= 1,
        "a restart",
    )
    assert "container_unhealthy" in agent.said()
    assert "code 3" in agent.said()


def test_a_container_is_ready_when_its_probe_says_so(agent, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flag = tmp_path / "up"
    probe = {"httpGet": {"port": "web", "path": "/healthz"}, "periodSeconds": 1}
    one = container(
        command=(sys.executable, "-c", SERVER, str(port), str(flag)),
        readinessProbe=probe,
        ports=[{"name": "web", "containerPort": port}],
    )
    running(agent, pod("asked", one))
    assert not ready(agent, "asked")
    flag.touch()
    agent.until(lambda: ready(agent, "asked"), "it to be ready")
    flag.unlink()
    agent.until(lambda: not ready(agent, "asked"), "it to be no longer ready")
    assert agent.pod_list()["asked"]["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_probe_runs_with_the_rights_and_files_of_its_container(agent):
    check = f"test $(id -u) = 65534 && test -e {MOUNTS}/probe/x"
    one = shell(
        f"touch {MOUNTS}/probe/x; sleep 1000",
        readinessProbe={"exec": {"command": ["sh", "-c", check]}, "periodSeconds": 1},
        securityContext={"runAsUser": NOBODY},
        volumeMounts=[{"name": "p", "mountPath": f"{MOUNTS}/probe"}],
    )
    applied(agent, pod("inside", one, volumes=[{"name": "p", "emptyDir": {}}]))
    agent.until_phase("inside", "Running")
    agent.until(lambda: ready(agent, "inside"), "it to be ready")


def test_hooks_run_after_the_start_and_before_the_end(agent, tmp_path):
    def hook(text):
        return {"exec": {"command": ["sh", "-c", f"echo {text} >>{tmp_path}/hooks"]}}

    one = container(lifecycle={"postStart": hook("started"), "preStop": hook("stopping")})
    running(agent, pod("hooked", one))
    agent.until(lambda: ready(agent, "hooked"), "its hook to end")
    assert (tmp_path / "hooks").read_text() == "started\n"
    agent.request("DELETE", "/pods", params={"name": "hooked"})
    agent.until(lambda: "hooked" not in agent.pod_list(), "the pod to be gone")
    assert (tmp_path / "hooks").read_text() == "started\nstopping\n"


def test_a_container_whose_first_hook_fails_is_stopped(agent):
    hook = {"exec": {"command": ["sh", "-c", "exit 4"]}}
    name = applied(agent, pod("bad-hook", container(lifecycle={"postStart": hook})))
    agent.until(
        lambda: agent.pod_list()[name]["status"]["containerStatuses"][0]["restartCount"] >= 1,
        "a restart",
    )


def test_a_pod_ends_at_its_deadline(agent):
    name = applied(agent, pod("late", container(), activeDeadlineSeconds=1))
    agent.until_phase(name, "Failed")
    assert agent.pod_list()[name]["status"]["reason"] == "DeadlineExceeded"
    agent.until(lambda: not [k for k in agent.records() if k[0] == name], "its processes to end")


# Told.


def test_what_does_nothing_is_told_in_status_describe_and_log(agent):
    one = container(tty=True, livenessprobe={"tcpSocket": {"port": 1}})
    name = applied(agent, pod("chatty", one, nodeSelector={"disk": "ssd"}))
    found = agent.pod_list()[name]
    [condition] = [c for c in found["status"]["conditions"] if c["type"] == "numalign.io/AsWritten"]
    assert condition["status"] == "False"
    for words in (
        "spec.containers[c].tty: output goes to a log",
        "spec.containers[c].livenessprobe: unknown to Kubernetes",
        "spec.nodeSelector: one host has no scheduler",
    ):
        assert words in condition["message"]
        assert [note for note in found["numalign"]["notes"] if words in note]
    command = [sys.executable, "-m", "numalign", "describe", "pod", name]
    command += ["--socket", str(agent.state / "agent.sock")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "unknown to Kubernetes" in shown
    assert agent.said().count("fields_not_carried_out") >= 1


# Who asked.


def write(agent, name, document, *, owner=0, mode=0o644):
    hidden = agent.pods / f".{name}"
    hidden.write_text(json.dumps(document))
    os.chown(hidden, owner, owner)
    hidden.chmod(mode)
    hidden.rename(agent.pods / name)


def test_a_process_runs_as_the_owner_of_its_manifest(agent):
    write(agent, "own.json", pod("owned", container()), owner=NOBODY)
    agent.until_phase("owned", "Running")
    uid = agent.pod_list()["owned"]["metadata"]["uid"]
    found = status(agent.records()[uid, "c"])
    assert found["Uid"].split() == [str(NOBODY)] * 4
    assert "0" not in found["Groups"].split()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"securityContext": {"runAsUser": 0}}, "only root may ask for another"),
        ({"securityContext": {"runAsGroup": 0}}, "expected one of who asked"),
        ({"securityContext": {"privileged": True}}, "only root may ask for it"),
        ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "only root may ask"),
    ],
)
def test_somebody_else_cannot_ask_for_root(agent, more, words):
    write(agent, "grab.json", pod("grab", container(**more)), owner=NOBODY)
    agent.until_phase("grab", "Failed")
    assert words in agent.pod_list()["grab"]["status"]["message"]
    (agent.pods / "grab.json").unlink()
    agent.until(lambda: "grab" not in agent.pod_list(), "it to be gone")


def test_nobody_reaches_through_a_mount_what_it_could_not_reach_itself(agent, tmp_path):
    secret = tmp_path / "locked" / "open"
    secret.mkdir(parents=True)
    (secret / "f").write_text("hidden")
    (tmp_path / "locked").chmod(0o700)
    one = shell(
        f"cat {MOUNTS}/reach/f; sleep 1000",
        volumeMounts=[{"name": "h", "mountPath": f"{MOUNTS}/reach"}],
    )
    volume = {"name": "h", "hostPath": {"path": str(secret)}}
    (MOUNTS / "reach").mkdir(exist_ok=True)
    write(agent, "reach.json", pod("reach", one, volumes=[volume]), owner=NOBODY)
    agent.until(lambda: "Permission denied" in json.dumps(agent.pod_list()), "its refusal")
    assert "hidden" not in said(agent, "reach")
    (agent.pods / "reach.json").unlink()


def test_a_volume_never_fools_a_program_that_gets_more_rights(agent):
    (MOUNTS / "fool").mkdir(exist_ok=True)
    one = container(volumeMounts=[{"name": "h", "mountPath": f"{MOUNTS}/fool"}])
    volume = {"name": "h", "emptyDir": {}}
    write(agent, "fool.json", pod("fool", one, volumes=[volume]), owner=NOBODY)
    agent.until_phase("fool", "Running")
    uid = agent.pod_list()["fool"]["metadata"]["uid"]
    assert status(agent.records()[uid, "c"])["NoNewPrivs"] == "1"
    (agent.pods / "fool.json").unlink()
    agent.until(lambda: "fool" not in agent.pod_list(), "it to be gone")


def test_a_manifest_that_others_can_write_is_refused_and_the_rest_goes_on(agent):
    write(agent, "open.json", pod("open", container()), mode=0o666)
    write(agent, "fine.json", pod("fine", container()))
    agent.until_phase("fine", "Running")
    assert "open" not in agent.pod_list()
    assert "others than its owner can write it" in agent.said()
    (agent.pods / "open.json").chmod(0o644)
    agent.until_phase("open", "Running")


def test_a_directory_that_others_can_write_is_not_read(agent):
    agent.pods.chmod(0o777)
    try:
        write(agent, "late.json", pod("from-open-directory", container()))
        agent.until(
            lambda: "others than root can put manifests there" in agent.said(), "its refusal"
        )
        time.sleep(1.5)  # longer than it takes to look twice
        assert "from-open-directory" not in agent.pod_list()
    finally:
        agent.pods.chmod(0o755)
    agent.until_phase("from-open-directory", "Running")


def test_a_process_runs_as_the_peer_of_the_socket(agent):
    path = agent.state / "agent.sock"
    agent.state.chmod(0o711)
    path.chmod(0o666)  # as an operator may decide
    # The interpreter may be where nobody else can read, so all is loaded before.
    script = (
        "import http.client, os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "client = http.client.HTTPConnection('agent')\n"
        "client.sock = socket.socket(socket.AF_UNIX)\n"
        "client.sock.connect(sys.argv[1])\n"
        "client.request('POST', '/pods', sys.argv[2])\n"
        "answer = client.getresponse()\n"
        "print(answer.status, answer.read())\n"
    )
    try:
        document = json.dumps(pod("peer", container()))
        found = subprocess.run(
            [sys.executable, "-c", script, str(path), document],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        path.chmod(0o600)
        agent.state.chmod(0o700)
    assert found.stdout.startswith("201"), found.stdout
    agent.until_phase("peer", "Running")
    uid = agent.pod_list()["peer"]["metadata"]["uid"]
    assert status(agent.records()[uid, "c"])["Uid"].split() == [str(NOBODY)] * 4
