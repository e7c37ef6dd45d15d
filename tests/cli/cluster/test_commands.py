"""Bad input to the commands of a cluster: one line, no damage."""

from __future__ import annotations

import pytest

from numalign.cli.main import main

CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def refused(capsys, *arguments):
    code = main(arguments)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return code, error


@pytest.fixture
def host(tmp_path):
    """Options for a host whose socket does not answer."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    return {
        "--machine": "2s:1n:4c:1t",
        "--kubelet-config": str(config),
        "--pod-resources": str(tmp_path / "kubelet.sock"),
        "--state": str(tmp_path),
        "--host-name": "worker-0",
    }


def export(capsys, host, **changes):
    given = {**host, **{f"--{key.replace('_', '-')}": value for key, value in changes.items()}}
    options = [f"{key}={value}" for key, value in given.items()]
    return refused(capsys, "export", "--oneshot", "--no-publish", *options)


def test_a_machine_that_is_none(capsys, host):
    code, error = export(capsys, host, machine="/nowhere")
    assert code == 2
    assert "machine '/nowhere'" in error


def test_a_missing_configuration_says_which_one_is_meant(capsys, host, tmp_path):
    code, error = export(capsys, host, kubelet_config=tmp_path / "missing")
    assert code == 2
    assert "cannot be read: No such file or directory. Give the file" in error


@pytest.mark.parametrize("text", ["", "[]", "kind: Pod", CONFIG + "cpuManagerPolicy: 7\n"])
def test_a_configuration_that_is_none(capsys, host, tmp_path, text):
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    code, error = export(capsys, host, kubelet_config=bad)
    assert code == 2
    assert "bad.yaml" in error


def test_a_configuration_without_end(capsys, host):
    code, error = export(capsys, host, kubelet_config="/dev/zero")
    assert code == 2
    assert "found more than 1048576 bytes" in error


def test_numbers_out_of_range(capsys, host):
    code, error = export(capsys, host, interval="0")
    assert (code, "--interval: found 0" in error) == (2, True)
    code, error = export(capsys, host, listen="nonsense")
    assert (code, "--listen" in error) == (2, True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--reason=Evicted", "--reason: found 'Evicted', expected one of OutOfcpu"),
        ("--keep=-1", "--keep: found -1, expected 0 or more"),
        ("--avoid-max=1", "--avoid-max: found 1, expected 30 or more"),
        ("--refusals-max=0", "--refusals-max: found 0, expected 1 or more"),
        ("--deletions-per-minute=0", "--deletions-per-minute: found 0"),
        ("--listen=1.2.3.4", "--listen: found '1.2.3.4'"),
        ("--kubeconfig=/nowhere", "/nowhere: No such file or directory"),
    ],
)
def test_redeploy_refuses_what_makes_no_sense(capsys, option, words):
    code, error = refused(capsys, "redeploy", option)
    assert code == 2
    assert words in error
