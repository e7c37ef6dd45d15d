"""Real peers of the device plugin and pod resources APIs, as Go programs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.real.go_program import go_program
from tests.real.kept import MissingError, say

SOURCES: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A Go program: the module that holds what it needs, and its package."""

    name: str
    module: str
    package: str


SAMPLE = Peer(
    "sample-device-plugin", "sample", "k8s.io/kubernetes/test/images/sample-device-plugin"
)
NUMA_PLUGIN = Peer("numaplugin", "official", "./numaplugin")
POD_RESOURCES = Peer("podresources", "official", "./podresources")


@functools.cache
def built(peer: Peer, config: pytest.Config | None = None) -> Path:
    """The program; the calling test is skipped where Go is missing, and fails if the build does.

    With the configuration of pytest the progress line goes past its capture.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter") if config else None
    report = reporter.write_line if reporter is not None else say
    try:
        return go_program(peer.name, SOURCES / peer.module, peer.package, report=report)
    except MissingError as missing:
        pytest.skip(str(missing))
