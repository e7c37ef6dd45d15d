"""A real agent with real device plugins on its sockets: what they give, and what they do wrong."""

import asyncio
import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.adapters.grpc.plugin_peers import RESOURCE, Plugin, device, device_list, register
from tests.apps.agent.processes import AgentProcess, found_below, manifest

from numalign.adapters.local.paths import cgroup_parent
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb
from numalign.wire.grpc._generated.pluginregistration_v1_pb2 import PluginInfo

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

CONFIG = """
apiVersion: numalign.io/v1
kind: AgentConfiguration
backoffSeconds: 0.2
"""


@pytest.fixture
def agent():
    with AgentProcess(config=CONFIG) as found:
        yield found


@contextmanager
def beside():
    """An event loop in a thread of its own; gives what runs a coroutine in it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def gives(_request):
    answer = pb.ContainerAllocateResponse(
        envs={"GPU": "g0"}, devices=[pb.DeviceSpec(container_path="/dev/g0", host_path="/dev/g0")]
    )
    return pb.AllocateResponse(container_responses=[answer]).SerializeToString()


async def serving(socket, answers=None, info=None, devices=("g0",)):
    plugin = Plugin(answers=answers or {"Allocate": gives}, info=info)
    await plugin.lists.put(device_list(*(device(name, 0) for name in devices)))
    await plugin.serve(socket)
    return plugin


async def stopped(plugin):
    await plugin.lists.put(None)
    await plugin.server.stop(0)


def with_gpu(name, **more):
    found = manifest(name, **more)
    found["spec"]["containers"][0]["resources"]["limits"][RESOURCE] = "1"
    return found


def resources(agent):
    return {d["resource"]: d["healthy"] for d in agent.request("GET", "/node").json()["devices"]}


def pid_of(agent, name):
    return agent.pod_list()[name]["numalign"]["containers"]["c"]["pid"]


def environment(pid):
    found = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(item.decode().partition("=")[::2] for item in found if item)


def test_what_a_plugin_gave_is_there_again_for_a_container_made_anew_after_a_restart(agent):
    directory = agent.state / "device-plugins"
    with beside() as run:
        plugin = run(serving(directory / "gpu.sock"))
        assert run(register(directory / "kubelet.sock", "gpu.sock")) == ""
        agent.until(lambda: resources(agent).get(RESOURCE), "the device")
        assert agent.apply(with_gpu("user")).status_code == 201
        agent.until_phase("user", "Running")
        [before] = agent.records().values()
        assert environment(before)["GPU"] == "g0"
        notes = agent.pod_list()["user"]["numalign"]["notes"]
        assert any("does not get device files /dev/g0" in note for note in notes)
        assert agent.said().count("devices_not_given") == 1
        agent.kill()
        run(stopped(plugin))  # and does not come back
        agent.start()
        os.kill(before, signal.SIGKILL)
        agent.until(lambda: pid_of(agent, "user") not in {None, before}, "a new process")
        assert environment(pid_of(agent, "user"))["GPU"] == "g0"
        assert agent.pod_list()["user"]["numalign"]["notes"] == notes


def test_a_pod_whose_plugin_had_not_answered_before_a_crash_is_decided_anew(agent):
    directory = agent.state / "device-plugins"
    asked = threading.Event()

    async def hangs(_request):
        asked.set()
        await asyncio.sleep(60)

    with beside() as run:
        plugin = run(serving(directory / "gpu.sock", {"Allocate": hangs}))
        assert run(register(directory / "kubelet.sock", "gpu.sock")) == ""
        agent.until(lambda: resources(agent).get(RESOURCE), "the device")
        assert agent.apply(with_gpu("user")).status_code == 201
        assert asked.wait(60)
        agent.kill()
        run(stopped(plugin))
        agent.start()
        agent.until(
            lambda: agent.pod_list()["user"]["status"].get("reason") == "WaitingForDevicePlugin",
            "the pod to wait",
        )
        again = run(serving(directory / "gpu.sock"))
        assert run(register(directory / "kubelet.sock", "gpu.sock")) == ""
        agent.until_phase("user", "Running")
        [pid] = agent.records().values()
        assert environment(pid)["GPU"] == "g0"
        run(stopped(again))


def test_a_plugin_that_hangs_lies_or_floods_leaves_a_living_agent(agent):
    directory = agent.state / "device-plugins"

    async def lies(_request):
        answer = pb.ContainerAllocateResponse(envs={"A=B": "x"})
        return pb.AllocateResponse(container_responses=[answer]).SerializeToString()

    async def flood(plugin):
        for number in range(3000):
            await plugin.lists.put(device_list(device("g0", number % 2)))

    with beside() as run:
        plugin = run(serving(directory / "gpu.sock", {"Allocate": lies}))
        assert run(register(directory / "kubelet.sock", "gpu.sock")) == ""
        agent.until(lambda: resources(agent).get(RESOURCE), "the device")
        agent.apply(with_gpu("lied-to"))
        agent.until_phase("lied-to", "Failed")
        assert "cannot be set" in agent.pod_list()["lied-to"]["status"]["message"]
        run(flood(plugin))
        slowest = 0.0
        for number in range(20):
            start = time.monotonic()
            answer = agent.apply(manifest(f"p{number}", command=("true",), restartPolicy="Never"))
            slowest = max(slowest, time.monotonic() - start)
            assert answer.status_code == 201
        assert slowest < 5
        run(stopped(plugin))
        agent.until(lambda: resources(agent)[RESOURCE] is False, "the device to be unhealthy")
        assert agent.request("GET", "/healthz").status_code == 200


def test_a_plugin_in_plugins_registry_is_found_and_asked(agent):
    registry = agent.state / "plugins_registry"
    info = PluginInfo(type="DevicePlugin", name=RESOURCE, supported_versions=["v1beta1"])
    with beside() as run:
        plugin = run(serving(registry / "gpu.sock", info=info))
        agent.until(lambda: resources(agent).get(RESOURCE), "the device")
        assert plugin.told == [(True, "")]
        assert agent.apply(with_gpu("user")).status_code == 201
        agent.until_phase("user", "Running")
        [pid] = agent.records().values()
        assert environment(pid)["GPU"] == "g0"
        run(stopped(plugin))
        (registry / "gpu.sock").unlink(missing_ok=True)
        agent.until(lambda: resources(agent)[RESOURCE] is False, "the device to be unhealthy")


@pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root")
def test_the_burstable_class_weighs_what_its_pods_ask_for(agent):
    def weight(name):
        parent = cgroup_parent(agent.state)
        place = f"{parent}/{name}/cpu.*"  # with cgroup v2, and below a controller with v1
        top = Path("/sys/fs/cgroup")
        for path in [*found_below(top, place), *found_below(top, f"*/{place}")]:
            if path.name in {"cpu.weight", "cpu.shares"}:
                return path.name, int(path.read_text())
        return None

    if "no cgroup controller cpu" in agent.said() or "without cgroups" in agent.said():
        pytest.skip("no cgroup controller for CPU time here")
    for name in ("a", "b"):
        pod = manifest(name, command=("sleep", "100"))
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "250m"}
        assert agent.apply(pod).status_code == 201
        agent.until_phase(name, "Running")
    assert weight("burstable") in {("cpu.weight", 20), ("cpu.shares", 512)}
    assert weight("besteffort") in {("cpu.weight", 1), ("cpu.shares", 2)}
    uid = agent.pod_list()["b"]["metadata"]["uid"]
    agent.request("DELETE", f"/pods/{uid}")
    agent.until(lambda: weight("burstable")[1] in {10, 256}, "the class to become lighter")
