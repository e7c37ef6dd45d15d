"""``explain pod NAME`` asks the agent that is named or runs here, and else a cluster."""

import json

import pytest
from tests.web.in_memory_agent import InMemoryAgent, manifest, served

from numalign.cli.main import main


@pytest.fixture
def host(tmp_path, short_path, monkeypatch):
    monkeypatch.delenv("NUMALIGN_SOCKET", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    with served(InMemoryAgent(tmp_path), short_path) as found:
        path = tmp_path / "pods.json"
        items = [manifest("web"), manifest("big", cpu="9")]
        path.write_text(json.dumps({"kind": "List", "items": items}))
        main(["apply", "-f", str(path), "--socket", str(found.socket)])
        yield found


@pytest.fixture
def run(host, capsys):
    def call(*args):
        capsys.readouterr()
        code = main(["explain", *args])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_a_refused_pod_is_asked_again_with_what_would_help(run, host):
    code, out, _ = run("pod", "big", "--socket", str(host.socket))
    assert code == 1
    assert out.startswith("big: TopologyAffinityError, asked for ")
    assert f"On {host.socket}, as it is now:" in out
    assert "Pod default/big is refused: container main asks for 9" in out
    assert "What would let it in, each tried:" in out
    code, out, _ = run("pod/big", "--server", host.tcp, "-o", "json", "--no-search")
    [answer] = json.loads(out)
    assert (code, answer["container"], answer["resources"]) == (1, "main", ["cpu"])


def test_a_pod_that_runs_shows_where_it_sits(run, host):
    code, out, _ = run("po", "web", "--socket", str(host.socket))
    assert code == 0
    assert "Pod default/web is admitted." in out and "main       2,10" in out


def test_a_pod_that_would_fit_by_now_is_said_to(run, host):
    host.agent.state.pods  # noqa: B018 - the host is there
    code, out, err = run("pod", "nobody", "--socket", str(host.socket))
    assert (code, out) == (1, "") and "found no pod nobody" in err


def test_an_agent_and_a_cluster_at_once_are_wrong_usage(run, host):
    code, _, err = run("pod", "web", "--socket", str(host.socket), "--context", "x")
    assert code == 2 and "expected an agent or a cluster" in err


def test_the_environment_names_an_agent_and_a_context_the_cluster(run, host, monkeypatch):
    monkeypatch.setenv("NUMALIGN_SOCKET", str(host.socket))
    assert run("pod", "web")[0] == 0
    code, out, err = run("pod", "web", "--context", "x")
    assert code != 0 and "kube" in err.lower() and out == ""


def test_without_an_agent_on_this_host_the_cluster_is_asked(run):
    code, out, err = run("pod", "web")
    assert code != 0 and out == "" and "kube" in err.lower()
