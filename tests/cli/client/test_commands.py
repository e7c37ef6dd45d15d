"""The commands that talk to an agent, against a real server on a unix socket and on loopback."""

import json
import os
import signal
import subprocess
import time

import pytest
import yaml
from tests.cli.conftest import PYTHON, environment, started
from tests.web.in_memory_agent import GPU, TOKEN, manifest

from numalign.cli.client.agent_rows import PODS, age_text, pod_status
from numalign.cli.client.formats.tables import Found, Shown
from numalign.cli.main import main
from numalign.cli.output import Output, Settings
from numalign.core.views.trace import as_data, as_lines, lines_of
from numalign.wire.pods.manifests import load_all


def rows(text):
    head, *lines = text.splitlines()
    return head.split(), [line.split() for line in lines]


# Without an agent.


@pytest.mark.parametrize(
    "args",
    [["get", "pods"], ["describe", "pod", "x"], ["logs", "x"], ["delete", "x"], ["top", "--once"]],
    ids=lambda args: args[0],
)
def test_without_an_agent_each_command_says_so_and_fails(args, tmp_path, capsys):
    path = tmp_path / "none.sock"
    assert main([*args, "--socket", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"error: {path}: no agent answers there. Start one with")
    assert shown.err.count("\n") == 1


def test_a_dead_socket_and_a_closed_port_are_no_agents(short_path, capsys):
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short_path / "dead"))
    assert main(["get", "pods", "--socket", str(short_path / "dead")]) == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert main(["get", "pods", "--server", f"http://127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().err.count("no agent answers there") == 2


def test_options_that_make_no_sense_are_wrong_usage(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMALIGN_SOCKET", raising=False)
    assert main(["get", "pods", "--server", "localhost:1"]) == 2
    assert main(["get", "pods", "--server", "http://a", "--socket", "b"]) == 2
    assert main(["get", "cats"]) == 2
    assert main(["get", "pods", "-o", "xml"]) == 2
    assert main(["delete"]) == 2
    assert main(["delete", "x", "-f", "y"]) == 2
    assert main(["apply"]) == 2
    assert main(["describe", "cat", "x"]) == 2
    assert main(["apply", "-f", str(tmp_path / "missing.yaml")]) == 2
    assert main(["apply", "-f", str(tmp_path)]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 10 and all(line.startswith("error: ") for line in shown)


# apply and delete.


def test_apply_creates_leaves_alone_and_replaces(run, write, host):
    path = write("web.yaml", manifest("web"))
    assert run("apply", "-f", path) == (0, "pod/web created\n", "")
    (uid,) = host.agent.state.pods
    assert run("apply", "-f", path) == (0, "pod/web unchanged\n", "")
    assert list(host.agent.state.pods) == [uid]
    write("web.yaml", manifest("web", cpu="3"))
    assert run("apply", "-f", path) == (0, "pod/web replaced\n", "")
    (other,) = host.agent.state.pods
    assert other != uid


def test_apply_tells_of_every_pod_and_fails_if_one_is_refused(run, write):
    path = write("pods.yaml", manifest("a"), manifest("big", cpu="9"), manifest("b"))
    code, out, _ = run("apply", "-f", path)
    assert code == 1
    assert out.splitlines() == [
        "pod/a created",
        "pod/big refused: TopologyAffinityError: Resources cannot be allocated with Topology "
        "locality",
        "pod/b created",
    ]
    code, out, _ = run("apply", "-f", path, "-o", "json")
    assert code == 1
    assert [c["result"] for c in json.loads(out)] == ["unchanged", "refused", "unchanged"]


def deployment(replicas, cpu="1"):
    spec = {"replicas": replicas, "template": {"spec": manifest(cpu=cpu)["spec"]}}
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_apply_makes_scales_and_changes_a_workload(run, write, host):
    path = write("web.yaml", {"kind": "Service"}, deployment(2))
    code, out, err = run("apply", "-f", path)
    assert (code, out) == (0, "pod/web-0 created\npod/web-1 created\n")
    assert err.count("\n") == 1 and "passed over Service" in err
    write("web.yaml", deployment(1, cpu="2"))
    assert run("apply", "-f", path)[1] == "pod/web-1 deleted\npod/web-0 replaced\n"
    assert "Controlled By:   Deployment/web" in run("describe", "pod", "web-0")[1]
    _, [line] = rows(run("get", "pods", "-o", "wide")[1])
    assert "Deployment/web" in line
    assert run("delete", "-f", path)[1] == "pod/web-0 deleted\n"
    assert not host.agent.state.pods
    assert run("delete", "-f", path) == (1, "deployment/web not found\n", "")


def test_apply_waits_for_the_old_pod_and_tells_what_became_of_the_new_one(run, write, host):
    path = write("web.yaml", manifest("web"))
    run("apply", "-f", path)
    [uid] = host.agent.state.pods
    host.agent.stubborn.add("web")
    write("web.yaml", manifest("web", cpu="9"))
    with following(host, "apply", "-f", path) as process:
        deadline = time.monotonic() + 10
        while len(host.agent.state.pods) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        host.call(host.agent.exit, uid, "main", 143)
        assert process.stdout.readline().startswith("pod/web refused: TopologyAffinityError: Res")
        assert process.wait(10) == 1


def test_apply_refuses_the_second_of_a_name_and_goes_on(run, write, host):
    first = write("a.yaml", manifest("a"))
    second = write("b.yaml", manifest("a", cpu="3"), manifest("b"))
    code, out, _ = run("apply", "-f", first, "-f", second)
    assert code == 1
    assert out.splitlines() == [
        "pod/a created",
        f"pod/a refused: AlreadyExists: it is there twice, in {first} and {second}: the first one "
        "counts",
        "pod/b created",
    ]
    assert run("apply", "-f", first, "-n", "other")[0] == 2


def test_apply_takes_a_directory_in_order_without_hidden_and_other_files(run, write, tmp_path):
    for name in ["d/2.yaml", "d/1.json", "d/.hidden.yaml", "d/readme.txt"]:
        write(name, manifest("pod-" + name.removeprefix("d/")[0].replace(".", "x")))
    code, out, _ = run("apply", "-f", str(tmp_path / "d"), "-o", "yaml")
    assert code == 0
    assert [change["name"] for change in yaml.safe_load(out)] == ["pod-1", "pod-2"]


def test_apply_reads_stdin(host, numalign):
    result = subprocess.run(
        [*PYTHON, "apply", "-f", "-"],
        input=json.dumps(manifest("web")),
        capture_output=True,
        text=True,
        env=environment(NUMALIGN_SOCKET=str(host.socket)),
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "pod/web created\n", "")


def test_bad_manifests_are_bad_input_and_nothing_is_created(run, write, host, tmp_path):
    good = write("good.yaml", manifest("web"))
    (tmp_path / "bad.yaml").write_text("kind: [")
    code, out, err = run("apply", "-f", good, "-f", str(tmp_path / "bad.yaml"))
    assert (code, out) == (2, "")
    assert "bad.yaml" in err and "unreadable YAML" in err
    (tmp_path / "large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    assert run("apply", "-f", str(tmp_path / "large.yaml"))[0] == 2
    assert not host.agent.state.pods


def test_delete_waits_until_the_pod_is_gone(run, write, host):
    run("apply", "-f", write("p.yaml", manifest("a"), manifest("b"), manifest("a", namespace="n")))
    assert run("delete", "a") == (0, "pod/a deleted\n", "")
    assert run("delete", "a") == (1, "pod/a not found\n", "")
    assert run("delete", "a", "-n", "n", "-o", "json")[0] == 0
    path = write("b.yaml", manifest("b"))
    assert run("delete", "-f", path, "--no-wait") == (0, "pod/b deleted\n", "")
    assert not host.agent.state.pods


# get.


@pytest.fixture
def filled(host):
    values = [manifest("web", gpus=1), manifest("small", cpu="500m"), manifest("big", cpu="9")]
    for value in values:
        (record,) = load_all(json.dumps(value).encode(), source="test")
        record.metadata.uid = f"uid-{record.metadata.name}"
        host.do(host.agent.submit(record))


def test_get_pods_shows_where_each_sits(run, filled):
    code, out, _ = run("get", "pods")
    assert code == 0
    head, lines = rows(out)
    assert head == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "CPUS", "NODES"]
    assert [line[1:4] + line[6:] for line in lines] == [
        ["web", "1/1", "Running", "2,10", "0"],
        ["small", "1/1", "Running", "shared", "0"],
        ["big", "0/1", "TopologyAffinityError", "-", "-"],
    ]


def test_get_pods_wide_and_by_name(run, filled):
    _, out, _ = run("get", "pods", "web", "-o", "wide")
    head, lines = rows(out)
    assert head[-9:-4] == ["QOS", "MEMORY", "DEVICES", "ALIGNED", "DISTANCE"]
    assert head[-4:] == ["OWNER", "SOURCE", "UID", "MESSAGE"]
    assert lines[0][lines[0].index("yes") :][:2] == ["yes", "10.0"]
    assert "Guaranteed" in lines[0] and f"{GPU}=g0" in out
    assert run("get", "pods", "nobody")[0] == 1
    assert run("get", "pods", "web", "-n", "other")[0] == 1


def test_get_pods_as_data_is_a_pod_list(run, filled):
    value = json.loads(run("get", "pods", "-o", "json")[1])
    assert value["kind"] == "PodList" and len(value["items"]) == 3
    assert yaml.safe_load(run("get", "pods", "-o", "yaml")[1]) == value


def test_get_cpus_shows_every_cpu_once(run, filled):
    _, out, _ = run("get", "cpus")
    _, lines = rows(out)
    assert lines == [
        ["0", "reserved", "2", "0-1", "default/small/main"],
        ["0", "exclusive", "2", "2,10", "default/web/main"],
        ["0", "shared", "4", "3,8-9,11", "default/small/main"],
        ["1", "shared", "8", "4-7,12-15", "default/small/main"],
    ]
    assert json.loads(run("get", "cpus", "web", "-o", "json")[1]) == [
        {
            "node": 0,
            "use": "exclusive",
            "count": 2,
            "cpus": "2,10",
            "containers": ["default/web/main"],
        }
    ]


def test_get_memory_and_devices_show_who_has_them(run, filled):
    _, out, _ = run("get", "memory")
    assert "default/web/main 1 GiB, default/small/main 1 GiB" in out
    assert json.loads(run("get", "memory", "-o", "json")[1])[0]["freeBytes"] == 61 << 30
    _, lines = rows(run("get", "devices")[1])
    assert lines[0] == [GPU, "g0", "0", "healthy", "default/web/main"]
    assert [line[-1] for line in lines[1:]] == ["-", "-", "-"]


def following(host, *arguments):
    """A command that goes on, asking the agent of this host."""
    return started(
        [*PYTHON, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(NUMALIGN_SOCKET=str(host.socket)),
    )


def test_watching_shows_what_changes_and_ctrl_c_ends_it(host, filled, write):
    with following(host, "get", "pods", "--watch") as process:
        shown = [process.stdout.readline() for _ in range(4)]
        assert shown[0].startswith("NAMESPACE") and "web" in shown[1]
        uid = next(iter(host.agent.state.pods))
        host.call(host.agent.exit, uid, "main", 1)
        changed = process.stdout.readline()
        assert "web" in changed and "CrashLoopBackOff" in changed
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_watching_does_not_take_a_pods_age_for_news(capsys):
    out = Output(Settings())
    record = {
        **dict.fromkeys(["namespace", "name", "status", "cpus", "nodes"], "x"),
        **{"ready": 1, "containers": 1, "restarts": 0, "shared": False, "age": "1s"},
    }
    shown = Shown(out, "table")
    shown.show(Found(PODS, [record], None))
    assert "1s" in capsys.readouterr().out
    shown.show(Found(PODS, [{**record, "age": "2s"}], None))
    assert capsys.readouterr().out == ""
    shown.show(Found(PODS, [{**record, "age": "3s", "restarts": 7}], None))
    shown = capsys.readouterr().out
    assert "7" in shown and "NAME" not in shown


# describe, logs, top.


def test_describe_tells_state_place_and_reason(run, filled):
    code, out, _ = run("describe", "pod", "web")
    assert code == 0
    for text in [
        "Name:            web",
        "    CPUs:        2,10 (exclusive) on node 0",
        "    Memory:      1 GiB of memory on node 0",
        f"    Devices:     {GPU}: g0 on node 0",
        "    Aligned:     yes",
        "    Distance:    10.0 to memory and devices (10 = local, estimated)",
        "    Hint:        node 0, preferred",
        "Decision:        admitted",
        "  container main: cpu_manager cpu: {0}+ {1}+ {0-1}-",
    ]:
        assert text in out.splitlines(), text
    _, out, _ = run("describe", "pod", "big")
    assert "Decision:        rejected, TopologyAffinityError\n" in out
    assert out.count("Resources cannot be allocated") == 1  # the kubelet's words, once
    assert "  container main: merged any-, refused" in out.splitlines()
    assert "Pod default/big is refused: container main asks for" in out
    assert "failed at " in out
    first, kubelets = out.index("Pod default/big is refused"), out.index("Pod was rejected: ")
    assert first == 0 and first < kubelets
    assert "What would let it in: numalign explain pod big -n default" in out
    assert "hints (node sets against resources)" not in out
    assert "hints (node sets against resources)" in run("-v", "describe", "pod", "big")[1]
    value = json.loads(run("describe", "pod", "big", "-o", "json")[1])
    assert value["decisions"][0]["outcome"] == "pod_rejected"


def test_describe_tells_the_reason_after_a_restart(run, filled, host):
    before = run("describe", "pod", "big")[1].partition("Name: ")[0]
    host.call(host.agent.journal._recent.clear)  # as after a restart: only the state is there
    _, out, _ = run("describe", "pod", "big")
    assert out.partition("Name: ")[0] == before != ""
    assert "how each provider answered is not kept over a restart" in out
    assert run("get", "pod", "big", "-o", "jsonpath={.numalign.why}")[1] in before.replace(
        "\n", " "
    )


def test_describe_asks_for_a_namespace_where_names_are_ambiguous(run, write):
    run("apply", "-f", write("p.yaml", manifest("a"), manifest("a", namespace="n")))
    code, _, err = run("describe", "pod", "a")
    assert code == 1 and "in the namespaces default, n: say which with -n" in err
    assert run("describe", "pod", "a", "-n", "n")[0] == 0
    assert "found no pod x" in run("describe", "pod", "x")[2]


def test_the_trace_reads_as_the_core_writes_it(host, run, filled):
    for decision in host.agent.recent:
        assert lines_of(as_data(decision.note.trace)) == as_lines(decision.note.trace)


def test_logs_prints_what_the_container_wrote(host, filled, capfdbinary):
    uid = next(iter(host.agent.state.pods))
    path = host.agent.log_path(uid, "main")
    path.write_bytes(b"T stdout F one\nT stderr F tw\xff\nT stdout F three\n")
    assert main(["logs", "web"]) == 0
    assert capfdbinary.readouterr().out == b"one\ntw\xff\nthree\n"
    assert main(["logs", "web", "--tail", "1", "-c", "main"]) == 0
    assert capfdbinary.readouterr().out == b"three\n"
    assert main(["logs", "web", "-c", "other"]) == 1
    assert b"expected one of main" in capfdbinary.readouterr().err


def test_logs_follows_until_the_container_has_ended(host, filled):
    uid = next(iter(host.agent.state.pods))
    path = host.agent.log_path(uid, "main")
    path.write_text("T stdout F one\n")
    with following(host, "logs", "web", "-f") as process:
        assert process.stdout.readline() == "one\n"
        with path.open("a") as file:
            file.write("T stdout F two\n")
        assert process.stdout.readline() == "two\n"
        host.do(host.agent.delete(uid))
        assert process.wait(10) == 0


def test_top_shows_nodes_pods_and_refusals_once(run, filled):
    code, out, _ = run("top", "--once")
    assert code == 0
    assert "[##----..]" in out and "[--------]" in out
    assert "4 CPUs, 61 GiB, 1 example.com/gpu" in out
    assert out.count("refused: big: TopologyAffinityError") == 1
    assert "\x1b[" not in out


def test_top_lives_on_a_terminal_until_ctrl_c(host, filled):
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PYTHON, "top", "--interval", "0.2"],
        stdout=theirs,
        stderr=theirs,
        env=environment(NUMALIGN_SOCKET=str(host.socket), COLUMNS="120", LINES="30"),
    ) as process:
        os.close(theirs)
        shown = b""
        deadline = time.monotonic() + 20
        while shown.count(b"policy single-numa-node") < 2 and time.monotonic() < deadline:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                if not os.read(ours, 65536):
                    break
            except OSError:
                break
        assert process.wait(10) == 130
        os.close(ours)
    assert shown.count(b"policy single-numa-node") >= 2


# Over TCP.


def test_over_tcp_looking_is_free_and_changing_needs_the_token(run, host, write, monkeypatch):
    path = write("web.yaml", manifest("web"))
    assert run("get", "pods", "--server", host.tcp)[0] == 0
    monkeypatch.setenv("NUMALIGN_TOKEN", "wrong")
    code, _, err = run("apply", "-f", path, "--server", host.tcp)
    assert code == 1 and "Set NUMALIGN_TOKEN to what is in the file api-token" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("NUMALIGN_TOKEN", TOKEN)
    assert run("apply", "-f", path, "--server", host.tcp) == (0, "pod/web created\n", "")


def test_something_that_is_not_the_agent_is_told(capsys, tmp_path):
    import http.server
    import threading

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            code = main(["get", "pods", "--server", f"http://127.0.0.1:{other.server_port}"])
        finally:
            other.shutdown()
            thread.join()
    assert code == 1
    assert "is no JSON; is this the agent?" in capsys.readouterr().err


# Words.


def test_ages_are_short():
    assert age_text("1970-01-01T00:00:00Z", 59) == "59s"
    assert age_text("1970-01-01T00:00:00Z", 3_599) == "59m"
    assert age_text("1970-01-01T00:00:00Z", 90_000) == "1d"
    assert age_text("1970-01-01T01:00:00Z", 0) == "0s"
    assert age_text(None, 0) == "-"


def test_the_status_of_a_pod_is_one_word_as_in_kubectl():
    def status(deleting=False, awaited=(), **members):
        extra = {"deleting": deleting, "awaitedDevices": list(awaited)}
        return pod_status({"status": {"phase": "Pending", **members}, "numalign": extra})

    waiting = {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    running = {"ready": False, "state": {"running": {}}}
    done = {"ready": True, "state": {"terminated": {}}}
    assert status(deleting=True) == "Terminating"
    assert status(phase="Succeeded") == "Completed"
    assert status(phase="Failed") == "Error"
    assert status(awaited=["a/b"]) == "AwaitingDevices"
    assert status(initContainerStatuses=[done, running]) == "Init:1/2"
    assert status(initContainerStatuses=[waiting]) == "Init:CrashLoopBackOff"
    assert status(containerStatuses=[done, waiting]) == "CrashLoopBackOff"
    assert status() == "Pending"


def test_explain_asks_the_agent_for_its_host(run, write, filled, host):
    path = write("big.json", manifest("bigger", cpu="9"))
    code, out, _ = run("explain", "-f", path, "--on", f"unix://{host.socket}", "-o", "json")
    [answer] = json.loads(out)
    assert code == 1
    assert answer["container"] == "main"
    assert answer["resources"] == ["cpu"]
    pods = json.loads(run("get", "pods", "-o", "json")[1])["items"]
    leaving = {uid for change in answer["changes"] for uid in change["leaving"]}
    assert leaving <= {found["metadata"]["uid"] for found in pods}
