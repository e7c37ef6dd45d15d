"""The official Go client of the PodResources API against our server."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.grpc.plugin_peers import run
from tests.core.hosts import GI, Driver, container, machine, pod, resources, settings
from tests.e2e.peers.build import POD_RESOURCES, Peer, built
from tests.sockets import short_directory

from numalign.adapters.grpc.podresources import PodResources
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import Device
from numalign.core.settings import Version
from numalign.core.views.podresources import resources_view

pytestmark = pytest.mark.e2e

NIC = "example.com/nic"
PROGRAMS: dict[Peer, Path] = {}
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module", autouse=True)
def program(pytestconfig: pytest.Config) -> None:
    """Builds before the first test, since every test has a time limit."""
    PROGRAMS[POD_RESOURCES] = built(POD_RESOURCES, pytestconfig)


@asynccontextmanager
async def served(driver: Driver) -> AsyncIterator[Ask]:
    with short_directory() as directory:
        server = PodResources(
            directory / "kubelet.sock", lambda: resources_view(driver.host, driver.state)
        )
        await server.start()

        async def ask(*words: str) -> Any:
            client = await asyncio.create_subprocess_exec(
                PROGRAMS[POD_RESOURCES], directory / "kubelet.sock", *words, stdout=PIPE
            )
            text, _ = await client.communicate()
            return json.loads(text)

        try:
            yield ask
        finally:
            await server.stop()


def host(*pods: Any, **others: Any) -> Driver:
    plugins = {NIC: [Device("n0", (0, 1)), Device("n1")]}
    driver = Driver(settings(**others), machine(), plugins)
    for one in pods:
        assert isinstance(driver.admit(one), Admitted)
    return driver


def memory(size: int, node: int = 0) -> dict[str, Any]:
    # protojson writes 64-bit numbers as texts, and leaves out a zero.
    where = {"ID": str(node)} if node else {}
    return {"memory_type": "memory", "size": str(size), "topology": {"nodes": [where]}}


DB = pod("db", container("log", "500m", "1Gi", sidecar=True), container("db", 2, "2Gi", nic=1))


def test_a_go_client_reads_who_holds_what() -> None:
    async def work() -> None:
        async with served(host(DB)) as ask:
            nic = {"resource_name": NIC, "device_ids": ["n0"]}
            shown = {
                "name": "db",
                "namespace": "default",
                "containers": [
                    {"name": "log", "memory": [memory(GI)]},
                    {
                        "name": "db",
                        "cpu_ids": ["2", "3"],
                        "memory": [memory(2 * GI)],
                        "devices": [
                            {**nic, "topology": {"nodes": [{}]}},
                            {**nic, "topology": {"nodes": [{"ID": "1"}]}},
                        ],
                    },
                ],
            }
            assert await ask("list") == {"pod_resources": [shown]}
            assert await ask("get", "default", "db") == {"pod_resources": shown}
            assert await ask("get", "default", "nobody") == {
                "code": "Unknown",
                "message": "pod nobody in namespace default not found",
            }

    run(work())


def test_a_go_client_reads_what_there_is_to_hold() -> None:
    async def work() -> None:
        async with served(host(DB)) as ask:
            found = await ask("allocatable")
            assert found["cpu_ids"] == [str(cpu) for cpu in range(1, 16)]
            assert found["memory"] == [memory(15 * GI), memory(16 * GI, 1)]
            assert [d["device_ids"] for d in found["devices"]] == [["n0"], ["n0"], ["n1"]]
            assert "topology" not in found["devices"][2]

    run(work())


def test_a_go_client_of_1_37_reads_the_resources_of_a_whole_pod() -> None:
    async def work() -> None:
        whole = pod("p", container("mine", 2, "1Gi"), container("x"), own=resources(4, "4Gi"))
        gates = {"PodLevelResourceManagers": True}
        driver = host(whole, gates=gates, scope="pod", version=Version.V1_37)
        async with served(driver) as ask:
            (shown,) = (await ask("list"))["pod_resources"]
            assert shown["cpu_ids"] == ["2", "3", "4", "5"]
            assert shown["memory"] == [memory(4 * GI)]
            assert shown["containers"][0]["cpu_ids"] == ["2", "3"]
            assert shown["containers"][1] == {"name": "x"}

    run(work())


def test_a_go_client_of_the_deprecated_version_is_served() -> None:
    async def work() -> None:
        async with served(host(DB)) as ask:
            nic = {"resource_name": NIC, "device_ids": ["n0"]}
            app = {"name": "db", "devices": [nic, nic]}
            shown = {"name": "db", "namespace": "default", "containers": [app]}
            assert await ask("list-v1alpha1") == {"pod_resources": [shown]}

    run(work())


def test_a_burst_of_a_go_client_meets_the_kubelets_rate_limit() -> None:
    async def work() -> None:
        async with served(host(DB)) as ask:
            ends = await ask("burst", "50")
            refused = ends.pop("ResourceExhausted: rejected by rate limit")
            assert list(ends) == ["OK: "]
            assert refused + ends["OK: "] == 50
            assert ends["OK: "] >= 9

    run(work())
