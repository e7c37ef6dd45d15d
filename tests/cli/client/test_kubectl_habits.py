"""What fingers know from kubectl works on the agent: types, names, labels, formats."""

import contextlib
import io
import json

import pytest
from tests.web.in_memory_agent import manifest

from numalign.cli.client.agent_rows import pod_records
from numalign.cli.main import main


def labelled(name, app, namespace="default", **more):
    value = manifest(name, cpu="1", namespace=namespace, **more)
    value["metadata"]["labels"] = {"app": app}
    return value


@pytest.fixture
def filled(host, write):
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api"},
        "spec": {"replicas": 2, "template": {"spec": manifest(cpu="1")["spec"]}},
    }
    pods = [labelled("web", "web"), labelled("db", "db"), labelled("web", "web", "shop")]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["apply", "-f", write("all.yaml", *pods, deployment)]) == 0


def names(run, *args):
    code, out, _ = run("get", *args, "-o", "name")
    return code, out.split()


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["po"], ["pod/web", "pod/db", "pod/web", "pod/api-0", "pod/api-1"]),
        (["pods", "-A"], ["pod/web", "pod/db", "pod/web", "pod/api-0", "pod/api-1"]),
        (["pods", "-n", "shop"], ["pod/web"]),
        (["pods", "-n", "shop", "-A", "-l", "app=web"], ["pod/web", "pod/web"]),
        (["pods", "-l", "app in (db)"], ["pod/db"]),
        (["pod/db", "deploy/api"], ["pod/db", "pod/api-0", "pod/api-1"]),
        (["deploy"], ["pod/api-0", "pod/api-1"]),
        (["deployment", "api", "-n", "shop"], []),
    ],
)
def test_get_takes_types_names_and_labels(run, filled, args, found):
    code, shown = names(run, *args)
    assert shown == found
    assert code == (0 if found else 1)


def test_get_gives_one_object_for_one_name_and_a_list_for_more(run, filled):
    assert run("get", "pod", "db", "-o", "jsonpath={.status.phase}")[:2] == (0, "Running")
    assert json.loads(run("get", "pod/db", "-o", "json")[1])["kind"] == "Pod"
    assert json.loads(run("get", "pods", "-l", "app=db", "-o", "json")[1])["kind"] == "PodList"
    _, out, _ = run("get", "pods", "-n", "default", "-o", "jsonpath={.items[*].metadata.name}")
    assert out == "web db api-0 api-1"
    code, out, err = run("get", "pods", "-o", "jsonpath={.items[?(@.a)]}")
    assert (code, out) == (2, "") and "needs filters, which are not supported" in err


def test_get_shows_custom_columns_with_and_without_a_head(run, filled):
    spec = "custom-columns=NAME:.metadata.name,APP:.metadata.labels.app"
    _, out, _ = run("get", "pods", "-n", "default", "-o", spec)
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "APP"],
        ["web", "web"],
        ["db", "db"],
        ["api-0", "<none>"],
        ["api-1", "<none>"],
    ]
    _, out, _ = run("get", "pods", "-n", "shop", "-o", spec, "--no-headers")
    assert out == "web  web\n"
    _, out, _ = run("get", "pods", "-n", "shop", "--no-headers")
    assert out.split()[:2] == ["shop", "web"]
    assert run("get", "cpus", "-o", "custom-columns=N:.node", "--no-headers")[0] == 0


def test_get_says_what_is_missing_and_shows_the_rest(run, filled):
    code, out, err = run("get", "pods", "db", "nobody", "--no-headers")
    assert code == 1 and out.split()[1] == "db"
    assert err == "error: found no pod/nobody. See 'numalign get pods -A'.\n"


@pytest.mark.parametrize("output", ["jsonpath=", "jsonpath", "custom-columns=", "name=x"])
def test_a_format_without_its_text_is_wrong_usage(run, output):
    assert run("get", "pods", "-o", output)[0] == 2


def test_tables_in_a_pipe_are_never_wrapped(run, write, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    run("apply", "-f", write("big.yaml", manifest("big", cpu="9"), manifest("x")))
    _, out, _ = run("get", "pods", "-o", "wide")
    assert len(out.splitlines()) == 3
    assert len(run("get", "memory")[1].splitlines()) == 3


def test_delete_pod_x_deletes_x_and_nothing_else(run, write, filled, host):
    run("apply", "-f", write("odd.yaml", manifest("pod", cpu="1")))
    assert run("delete", "pod", "db") == (0, "pod/db deleted\n", "")
    left = {(p.pod.namespace, p.pod.name) for p in host.agent.state.pods.values()}
    assert ("default", "pod") in left and ("default", "web") in left and len(left) == 5
    assert run("delete", "pod/pod", "-o", "name") == (0, "pod/pod\n", "")
    assert run("delete", "deploy/api")[1] == "pod/api-0 deleted\npod/api-1 deleted\n"
    assert run("delete", "pods")[0] == 2
    assert run("delete", "pods", "web", "--all")[0] == 2
    assert run("delete", "pods", "web", "-l", "app=web")[0] == 2
    assert run("delete", "pods", "-l", "app=none") == (1, "pods not found\n", "")
    assert run("delete", "pods", "-l", "app=web", "-n", "shop")[1] == "pod/web deleted\n"
    assert run("delete", "pods", "--all", "-o", "json")[0] == 0
    assert not host.agent.state.pods


def test_apply_and_delete_take_only_what_has_the_labels(run, write, host):
    path = write("two.yaml", labelled("a", "x"), labelled("b", "y"))
    assert run("apply", "-f", path, "-l", "app=x") == (0, "pod/a created\n", "")
    assert run("apply", "-f", path, "-o", "name") == (0, "pod/a\npod/b\n", "")
    assert run("delete", "-f", path, "-l", "app=y") == (0, "pod/b deleted\n", "")
    assert run("apply", "-f", path, "-l", "app=z")[0] == 2


@pytest.mark.parametrize(
    "words", [["pod", "db"], ["pod/db"], ["po", "db"], ["pods", "-l", "app=db"]], ids=str
)
def test_describe_takes_the_same_words(run, filled, words):
    code, out, _ = run("describe", *words)
    assert code == 0 and "Name:            db" in out
    assert "Name:            web" not in out


def test_describe_shows_several_pods_and_what_is_missing(run, filled):
    _, out, _ = run("describe", "deploy/api")
    assert out.count("Controlled By:   Deployment/api") == 2
    assert run("describe", "pods", "-n", "nowhere")[0] == 1
    assert len(json.loads(run("describe", "pods", "-o", "json")[1])) == 5


def test_describe_node_tells_the_host(run, filled, host):
    code, out, _ = run("describe", "node")
    assert code == 0
    name = host.agent.machine.name
    for text in (
        f"Name:            {name}",
        "  Topology:      single-numa-node, scope container",
        "Reserved CPUs:   0-1",
        "NUMA node 1:",
        "  Free:          4-7,12-15 (8)",
        "  example.com/gpu: g0 on node 0, free",
        "Pods:            5",
        "  default/api-0: Running, Deployment/api",
    ):
        assert text in out.splitlines(), text
    assert json.loads(run("describe", "node", name, "-o", "json")[1])["machine"]["name"] == name
    assert f"this agent's host is {name}" in run("describe", "node", "other")[2]


def test_logs_take_types_labels_and_a_container(host, filled, capfdbinary):
    for uid, known in host.agent.state.pods.items():
        host.agent.log_path(uid, "main").write_text(f"T stdout F {known.pod.name}\n")
    capfdbinary.readouterr()
    for args, text in (
        (["pod/db"], b"db\n"),
        (["pod", "db"], b"db\n"),
        (["db", "main"], b"db\n"),
        (["deploy/api"], b"api-0\n"),
        (["-l", "app=web"], b"web\nweb\n"),
        (["web", "-n", "shop"], b"web\n"),
    ):
        assert main(["logs", *args]) == 0, args
        shown = capfdbinary.readouterr()
        assert shown.out == text
        assert (b"found 2 pods of deployment/api, showing pod/api-0" in shown.err) == (
            args == ["deploy/api"]
        )
    assert main(["logs", "web"]) == 1
    assert b"in the namespaces default, shop: say which with -n" in capfdbinary.readouterr().err
    assert main(["logs"]) == 2
    assert main(["logs", "-l", "app=web", "-f"]) == 2
    assert main(["logs", "a", "b", "c"]) == 2


def test_ready_counts_sidecars_and_restarts_as_kubectl_does():
    def container(name, ready, restarts=0):
        return {"name": name, "ready": ready, "restartCount": restarts, "state": {}}

    pod = {
        "metadata": {"namespace": "d", "name": "p", "uid": "u"},
        "spec": {
            "containers": [{"name": "app"}],
            "initContainers": [{"name": "once"}, {"name": "side", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Guaranteed",
            "initContainerStatuses": [container("once", True, 3), container("side", True, 1)],
            "containerStatuses": [container("app", True, 2)],
        },
        "numalign": {"containers": {}, "source": "api", "deleting": False, "awaitedDevices": []},
    }
    [record] = pod_records([pod], 0.0)
    assert (record["ready"], record["containers"], record["restarts"]) == (2, 2, 3)
    pod["status"]["initContainerStatuses"] = [container("once", False, 3), container("side", False)]
    pod["status"]["containerStatuses"] = [container("app", False)]
    [record] = pod_records([pod], 0.0)
    assert (record["ready"], record["containers"], record["restarts"]) == (0, 2, 3)
