"""A real containerd of each version that is asked for (SUITE=sid,trixie,2.4.2), and the plugin."""

import os

import pytest
from tests.e2e.nri.plugin import NriPlugin
from tests.real import built_runtimes
from tests.real import containerd as real

ASKED = os.environ.get("SUITE", "").split(",")
# Debian's two lines, and newer ones with what those do not have.
SUITES = [one for one in ASKED if one] or [*real.SUITES, *built_runtimes.CONTAINERD]
VALIDATED = [one for one in SUITES if one in built_runtimes.CONTAINERD]


@pytest.fixture(scope="module", params=SUITES)
def runtime(request):
    with real.containerd(request.param) as found:
        yield found


@pytest.fixture(scope="module", params=VALIDATED)
def validated(request):
    """A containerd that can demand plugins."""
    with real.containerd(request.param, more=real.VALIDATOR) as found:
        yield found


@pytest.fixture
def plugin(runtime):
    with NriPlugin(runtime.nri) as found:
        yield found
