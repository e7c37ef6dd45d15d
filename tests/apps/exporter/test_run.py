"""The exporter beside a host whose socket answers and whose state files change."""

import asyncio
import contextlib

import pytest
from tests.cluster.fleet import HostPlan
from tests.cluster.served_host import ServedHost
from tests.core.hosts import container, pod

from numalign.apps.exporter.run import Exporter
from numalign.apps.exporter.scanning import Scanner, Sources
from numalign.core.errors import ConfigError


@pytest.fixture
def host(tmp_path):
    """A host that answers."""
    found = ServedHost(HostPlan("w1", "1s:2n:4c:1t,mem=8Gi", "restricted"), tmp_path)
    with found.served():
        yield found


def exporter(host, shown):
    sources = Sources(
        host_name="w1",
        pod_resources=host.socket,
        kubelet_config=host.config,
        state=host.state,
        machine=host.host.plan.shape,
    )
    return Exporter(Scanner(sources), None, shown.append)


def pods_of(topology):
    return [one.name for one in topology.placement.pods]


async def until(is_true):
    async with asyncio.timeout(10):
        while not is_true():
            await asyncio.sleep(0.02)


def test_once_shows_the_host_once(host):
    shown = []
    found = exporter(host, shown)
    assert found.problems() == ["nothing was published yet"]
    asyncio.run(found.once())
    assert [topology.name for topology in shown] == ["w1"]
    assert found.problems() == []
    assert b'numalign_export_scans_total{result="ok"} 1.0' in found.metrics_text()


def test_once_raises_what_went_wrong(host):
    host.config.unlink()
    shown = []
    with pytest.raises(ConfigError, match="cannot be read"):
        asyncio.run(exporter(host, shown).once())
    assert shown == []


def test_it_looks_again_when_the_state_files_change_and_after_a_failure(host):
    shown = []
    found = exporter(host, shown)

    async def watch():
        text = host.config.read_text()
        host.config.unlink()
        running = asyncio.create_task(found.run())
        await until(lambda: "cannot be read" in found.problems()[0])
        host.config.write_text(text)
        await until(lambda: shown)
        host.admit(pod("a", container("x", "2", "1Gi")))
        await until(lambda: len(shown) > 1)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(watch())
    assert [pods_of(topology) for topology in shown] == [[], ["a"]]
    assert b'numalign_export_scans_total{result="ok"} 2.0' in found.metrics_text()
