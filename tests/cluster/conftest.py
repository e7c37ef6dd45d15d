"""A real control plane for all tests of the cluster, and what they need on it."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from tests.packaging.manifests import MANIFESTS, NAMESPACE
from tests.real.control_plane import ControlPlane, control_plane
from tests.real.kept import MissingError

from numalign.wire.kubernetes import crd


@pytest.fixture(scope="session")
def plane(tmp_path_factory) -> ControlPlane:
    """One control plane without a scheduler; it is started where a test asks for one."""
    try:
        with control_plane(tmp_path_factory.mktemp("plane"), has_scheduler=False) as found:
            found.apply(crd.text())
            found.kubectl("wait", "--for=condition=Established", f"crd/{crd.NAME}", "--timeout=20s")
            found.kubectl("create", "namespace", NAMESPACE)
            yield found
    except MissingError as missing:
        pytest.skip(str(missing))


def rights(plane: ControlPlane, manifest: str) -> None:
    """Applies all of a manifest but the pods: accounts, roles and policies."""
    found = yaml.safe_load_all((MANIFESTS / manifest).read_text())
    plane.apply(
        *(
            json.dumps(one)
            for one in found
            if one and one["kind"] not in ("DaemonSet", "Deployment", "PodDisruptionBudget")
        )
    )


def wait_until(is_true, seconds: float = 20.0, what: str = "", *, pause: float = 0.1):
    """Waits until something is true, for a bounded time; what it found then."""
    deadline = time.monotonic() + seconds
    while True:
        found = is_true()
        if found:
            return found
        assert time.monotonic() < deadline, f"still not so after {seconds:g} s: {what or is_true}"
        time.sleep(pause)


@pytest.fixture
def until():
    return wait_until
