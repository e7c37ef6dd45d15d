"""What the tests of container runtimes share."""

import pytest
from tests.e2e.cri_agent import CriAgent
from tests.real import containerd as real


@pytest.fixture(scope="module", params=real.asked_suites())
def runtime(request):
    with real.containerd(request.param) as found:
        yield found


@pytest.fixture
def agent(runtime):
    with CriAgent(runtime) as found:
        yield found
