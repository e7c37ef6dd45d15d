"""Manual pages and the krew plugin are made from what is there."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile

import pytest
import yaml
from tools import krew, man

from numalign import __version__
from numalign.cli.commands import GROUPS


def test_every_command_has_a_manual_page():
    found = dict(man.pages())
    names = {entry.name for _, entries in GROUPS for entry in entries}
    assert set(found) == {"numalign.1", *(f"numalign-{name}.1" for name in names)}
    assert found == dict(man.pages())
    explain = found["numalign-explain.1"]
    assert f'"numalign {__version__}"' in explain
    assert r"\fB\-f, \-\-filename" in explain
    assert all(text.isascii() for text in found.values())


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_troff_has_nothing_to_say_about_them(tmp_path):
    for name, text in man.pages():
        (tmp_path / name).write_text(text)
        command = ["groff", "-man", "-Tutf8", "-ww", "-z", tmp_path / name]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert found.stderr == ""


def test_the_krew_manifest_has_the_digest_of_its_archive():
    url = "https://example.com/kubectl-numa.tar.gz"
    [platform] = yaml.safe_load(krew.manifest(url))["spec"]["platforms"]
    assert platform["uri"] == url
    assert platform["sha256"] == hashlib.sha256(krew.archive()).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(krew.archive())) as tar:
        modes = {member.name: member.mode for member in tar}
    assert modes == {"LICENSE": 0o644, "kubectl-numa": 0o755}
    assert platform["bin"] in modes


def test_the_krew_plugin_says_what_is_missing_and_else_calls_the_program(tmp_path):
    launcher = krew._launcher()
    nothing = {"PATH": "/usr/bin:/bin"}
    found = subprocess.run([launcher, "hosts"], env=nothing, capture_output=True, check=False)
    assert found.returncode == 1
    assert b"pipx install 'numalign[cluster]'" in found.stderr
    for name in ("numalign", "kubectl-numa"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    path = {"PATH": os.pathsep.join([str(tmp_path), nothing["PATH"]])}
    found = subprocess.run([launcher, "hosts", "a b"], env=path, capture_output=True, check=True)
    assert found.stdout == b"kubectl-numa hosts a b\n"
