"""A real runtime of each kind that is asked for (SUITE=sid,2.4.2,cri-o), and the plugin."""

import os

import pytest
from tests.e2e.nri.plugin import NriPlugin
from tests.real import built_runtimes, crio
from tests.real import containerd as real

ASKED = os.environ.get("SUITE", "").split(",")
# Debian's two containerds, and newer ones with what those do not have. CRI-O where it is asked for.
SUITES = [one for one in ASKED if one] or [*real.SUITES, *built_runtimes.CONTAINERD]
VALIDATED = [one for one in SUITES if one not in real.SUITES]


@pytest.fixture(scope="module", params=SUITES)
def runtime(request):
    is_crio = request.param == crio.NAME
    with crio.crio() if is_crio else real.containerd(request.param) as found:
        yield found


@pytest.fixture(scope="module", params=VALIDATED)
def validated(request):
    """A runtime that can demand plugins."""
    is_crio = request.param == crio.NAME
    running = crio.crio(crio.VALIDATOR) if is_crio else None
    with running or real.containerd(request.param, more=real.VALIDATOR) as found:
        yield found


@pytest.fixture
def plugin(runtime):
    with NriPlugin(runtime.nri) as found:
        yield found
