"""The real kubelet and our agent decide the same, step by step, and each can go on from the other.

Run by ``make e2e-numa``, and alone by ``make twin CONFIG=name``.
"""

import os

import pytest
from tests.real.kept import MissingError
from tests.twin.configurations import CONFIGURATIONS
from tests.twin.run import twinned

pytestmark = pytest.mark.e2e_numa

RUNS = [(one, version) for one in CONFIGURATIONS.values() for version in one.versions]


@pytest.mark.parametrize(
    ("configuration", "version"), RUNS, ids=[f"{one.name}-{version}" for one, version in RUNS]
)
def test_kubelet_and_agent_agree(configuration, version):
    if os.geteuid() != 0:
        pytest.skip("the guest reads this host's files as root")
    try:
        report = twinned(configuration, version)
    except MissingError as error:
        pytest.skip(str(error))
    assert report.differences == []
    assert report.predicted == report.asked
    assert report.steps >= 40
    assert report.handed_over
