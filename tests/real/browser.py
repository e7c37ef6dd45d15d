"""Debian's Chromium for tests of pages, driven by playwright, and axe-core for accessibility.

Chromium is installed by apt where it is not there yet; axe-core is fetched into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.real.kept import MissingError, cache, fetch_output, kept

AXE_VERSION: Final = "4.14.0"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> Path:
    """The browser, installed if need be; the calling test is skipped where that cannot be."""
    try:
        return _installed()
    except MissingError as error:
        pytest.skip(str(error))


def _installed() -> Path:
    found = shutil.which("chromium")
    if found is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise MissingError("chromium is not installed, and installing it needs root and apt")
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        fetch_output("chromium", ["apt-get", "-qq", "update"], env=env)
        wanted = ["chromium", "fonts-dejavu-core"]
        fetch_output(
            "chromium", ["apt-get", "-qq", "install", "--no-install-recommends", "-y", *wanted],
            env=env,
        )  # fmt: skip
        found = shutil.which("chromium")
    if found is None:
        raise MissingError("chromium cannot be installed: apt put no such program on the path")
    return Path(found)


def axe() -> str:
    """The script of axe-core; the calling test is skipped where it cannot be fetched."""
    try:
        return (
            kept(cache() / f"axe-core-{AXE_VERSION}", _fetch_axe).joinpath("axe.min.js").read_text()
        )
    except MissingError as error:
        pytest.skip(str(error))


def _fetch_axe(scratch: Path, ready: Path) -> None:
    if shutil.which("npm") is None:
        raise MissingError("axe-core is fetched with npm: not found here")
    fetch_output("axe-core", ["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"], folder=scratch)
    ready.mkdir()
    [packed] = scratch.glob("axe-core-*.tgz")
    fetch_output("axe-core", ["tar", "-xzf", str(packed), "-C", str(ready), "--strip-components=1"])


@contextmanager
def browser() -> Iterator[Any]:
    """A browser with an empty profile of its own, and nothing asked of the world outside."""
    program = chromium()
    sync_api = pytest.importorskip("playwright.sync_api")
    with tempfile.TemporaryDirectory() as profile, sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, headless=True, args=list(FLAGS),
            viewport={"width": 1440, "height": 900},
        )  # fmt: skip
        try:
            yield running
        finally:
            running.close()
