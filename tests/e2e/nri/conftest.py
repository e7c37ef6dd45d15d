"""A real containerd of each version that is asked for (SUITE=sid,trixie), and the plugin."""

import pytest
from tests.e2e.nri.plugin import NriPlugin
from tests.real import containerd as real


@pytest.fixture(scope="module", params=real.SUITES)
def runtime(request):
    with real.containerd(request.param) as found:
        yield found


@pytest.fixture
def plugin(runtime):
    with NriPlugin(runtime.nri) as found:
        yield found
