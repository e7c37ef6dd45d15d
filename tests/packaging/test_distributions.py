"""Wheel and sdist: the same files give the same bytes, wherever and whenever they are built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.paths import CHECKOUT
from tools import sbom

# What they are built from.
FILES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")
FOLDERS = ("src", "examples", "packaging", "tools")


def copied(place: Path, umask: int) -> Path:
    """A copy of the checkout as somebody else has it: other modes and times."""
    before = os.umask(umask)
    try:
        place.mkdir()
        for name in FILES:
            shutil.copyfile(CHECKOUT / name, place / name)
        for name in FOLDERS:
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(
                CHECKOUT / name, place / name, copy_function=shutil.copyfile, ignore=unwanted
            )
    finally:
        os.umask(before)
    return place


def built(place: Path) -> dict[str, bytes]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    env = {name: text for name, text in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, cwd=place, env=env, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in (place / "dist").iterdir()}


def test_two_builds_are_the_same_bytes_and_hold_the_sbom(tmp_path):
    first = built(copied(tmp_path / "here", 0o022))
    second = built(copied(tmp_path / "there", 0o077))
    assert len(first) == 2
    assert first == second
    [wheel] = (tmp_path / "here" / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if ".dist-info/sboms/" in name]
        assert packed.read(name) == sbom.OUT.read_bytes()
        assert json.loads(packed.read(name))["bomFormat"] == "CycloneDX"
