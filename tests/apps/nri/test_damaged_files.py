"""A bit that flipped in a file that the plugin reads is told, with the file's name."""

import pytest
from tests.apps.nri.host import policy

from numalign.apps.nri import saved
from numalign.apps.nri.guard import check_kubelet
from numalign.core.errors import ConfigError, CorruptCheckpointError

NO_TEXT = b'{"policyName":"\xff"}'


def test_a_state_that_is_no_text_is_refused_also_under_a_checksum_that_is_right():
    body = b'{"pods":{"\xff":{}}}'
    checksum = saved._checksum(1, body).encode()
    data = b'{"version":2,"number":1,"checksum":"%s","body":%s}' % (checksum, body)
    with pytest.raises(CorruptCheckpointError, match=r"nri\.json: found no state of the plugin"):
        saved.load([data], policy().host, path="nri.json")


def test_a_state_of_the_kubelet_that_is_no_text_is_told(tmp_path):
    (tmp_path / "cpu_manager_state").write_bytes(NO_TEXT)
    with pytest.raises(ConfigError, match="cpu_manager_state: cannot be read as the kubelet's"):
        check_kubelet(tmp_path / "config.yaml", tmp_path)
