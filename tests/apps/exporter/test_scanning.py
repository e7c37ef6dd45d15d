"""Looks at a host whose socket answers, while its files come and go."""

import asyncio

import pytest
from structlog.testing import capture_logs
from tests.cluster.fleet import HostPlan
from tests.cluster.served_host import ServedHost

from numalign.apps.exporter.scanning import Scanner, Sources
from numalign.core.errors import ConfigError
from numalign.core.settings import Version


@pytest.fixture
def host(short_path):
    """A host that answers."""
    found = ServedHost(HostPlan("w1", "1s:2n:4c:1t,mem=8Gi", "restricted"), short_path)
    with found.served():
        yield found


def scanner(host):
    return Scanner(
        Sources(
            host_name="w1",
            pod_resources=host.socket,
            kubelet_config=host.config,
            state=host.state,
            machine=host.host.plan.shape,
        )
    )


def policy(found):
    report = asyncio.run(found.scan(Version.V1_36))
    return report.settings.topology_policy


def test_a_configuration_that_cannot_be_read_any_more_is_kept_and_told_once(host):
    found = scanner(host)
    text = host.config.read_text()
    assert policy(found) == "restricted"
    host.config.write_text("topologyManagerPolicy: [")
    with capture_logs() as log:
        assert policy(found) == "restricted"
        assert policy(found) == "restricted"
    (told,) = [line for line in log if line["event"] == "configuration_kept"]
    assert str(host.config) in told["error"]
    host.config.write_text(text.replace('"restricted"', '"best-effort"'))
    assert policy(found) == "best-effort"


def test_without_any_configuration_nothing_is_published(host):
    host.config.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        policy(scanner(host))
