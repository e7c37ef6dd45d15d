"""Tests of the process runtime, run once more where there is cgroup v2 with cpusets."""

import pytest
from tests.real.guest import TOPOLOGIES, Guest
from tests.real.kept import MissingError
from tests.twin.suite import SECONDS_MAX

pytestmark = pytest.mark.e2e_numa

FILES = ["tests/adapters/test_cgroups.py", "tests/adapters/test_processes.py"]


def test_cgroups_and_processes_on_a_real_numa_kernel():
    try:
        guest = Guest(TOPOLOGIES["two-sockets"])
    except MissingError as error:
        pytest.skip(str(error))
    with guest:
        code, text = guest.call("tests.twin.suite:run", FILES, seconds=SECONDS_MAX + 60)
    assert code == 0, text
