"""-f FILE, DIR and -: what counts, what is passed over, and what is one clear line."""

import json

import pytest
from tests.web.in_memory_agent import manifest

from numalign.cli.manifests import read, read_workloads
from numalign.core.errors import WireError

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def deployment(replicas, name="web"):
    spec = {"replicas": replicas, "template": {"spec": manifest()["spec"]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def write(tmp_path):
    def call(name, *values):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n---\n".join(json.dumps(value) for value in values))
        return str(path)

    return call


def test_a_mixed_file_gives_its_pods_and_one_note(write, capsys):
    path = write("mixed.yaml", SERVICE, deployment(2), SERVICE)
    assert [pod.metadata.name for pod in read_workloads([path])] == ["web-0", "web-1"]
    note = f"note: {path}: passed over Service (2); only pods and workloads count\n"
    assert capsys.readouterr().err == note


def test_a_named_file_must_have_pods_but_one_in_a_directory_need_not(write, tmp_path, capsys):
    path = write("d/service.yaml", SERVICE)
    with pytest.raises(WireError, match=r"service\.yaml: found only Service, expected one of"):
        read([path])
    with pytest.raises(WireError, match="found only Service"):
        read([str(tmp_path / "d")])
    write("d/web.yaml", deployment(1))
    assert [w.name for w in read([str(tmp_path / "d")])] == ["web"]
    assert "service.yaml: passed over Service" in capsys.readouterr().err


def test_two_pods_of_one_name_in_two_files_are_an_error_that_names_both(write):
    first, second = write("a.yaml", deployment(2)), write("b.yaml", manifest("web-1"))
    with pytest.raises(WireError) as caught:
        read_workloads([first, second])
    assert str(caught.value).startswith(f"{second}: pod default/web-1: the name is taken by the")
    assert first in str(caught.value)


def test_nothing_to_ask_about_is_said(write):
    path = write("zero.yaml", deployment(0))
    with pytest.raises(WireError, match="found no pods to ask about"):
        read_workloads([path])
    assert [w.pods for w in read([path])] == [()]
