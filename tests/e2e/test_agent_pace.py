"""A real agent whose plugins, supervisors and loop are slow: nobody else waits for them."""

import asyncio
import py_compile
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.adapters.grpc.plugin_peers import RESOURCE, Plugin, device, device_list, register
from tests.apps.agent.processes import AgentProcess, allowed_cpus, manifest
from tests.e2e.test_agent_plugins import beside, resources, with_gpu

from numalign.adapters.processes import shim
from numalign.core.values.sets import parse_list
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as pb

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

QUICK_SECONDS = 3.0  # what is slow here takes longer, and a machine under load still answers


def quick(name):
    return manifest(name, command=("true",), restartPolicy="Never")


def seconds_of(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def slow_supervisors(agent, seconds):
    """Makes every supervisor of an agent wait before it begins: a machine that starts slowly."""
    [program] = agent.state.glob("supervisor.*.pyc")
    source = agent.root / "slow.py"
    text = Path(shim.__file__).read_text()
    source.write_text(
        text.replace(
            'if __name__ == "__main__":', f'if __name__ == "__main__":\n    time.sleep({seconds})'
        )
    )
    py_compile.compile(str(source), cfile=str(program), doraise=True)


@pytest.mark.parametrize("method", ["PreStartContainer", "Allocate"])
def test_a_plugin_that_hangs_holds_up_nobody_but_its_own_pod(method):
    asked = threading.Event()

    async def hangs(_request):
        asked.set()
        await asyncio.sleep(60)

    async def serving(socket):
        options = pb.DevicePluginOptions(pre_start_required=True)
        plugin = Plugin(options=options, answers={method: hangs})
        await plugin.lists.put(device_list(device("g0", 0)))
        await plugin.serve(socket)
        return plugin

    async def gives(_request):
        answer = pb.ContainerAllocateResponse(envs={"GPU": "g0"})
        return pb.AllocateResponse(container_responses=[answer]).SerializeToString()

    with AgentProcess() as agent, beside() as run:
        directory = agent.state / "device-plugins"
        plugin = run(serving(directory / "gpu.sock"))
        plugin.answers.setdefault("Allocate", gives)
        assert run(register(directory / "kubelet.sock", "gpu.sock")) == ""
        agent.until(lambda: resources(agent).get(RESOURCE), "the device")
        assert agent.apply(with_gpu("user")).status_code == 201
        assert asked.wait(60)
        took = seconds_of(lambda: agent.apply(quick("other")))
        took += seconds_of(lambda: agent.request("GET", "/node"))
        agent.until_phase("other", "Succeeded")
        assert took < QUICK_SECONDS
        assert agent.problems() == []
        run(plugin.server.stop(0))


def test_starts_that_take_long_run_side_by_side_and_hold_up_no_decision():
    with AgentProcess() as agent:
        slow_supervisors(agent, 6)
        start = time.monotonic()
        for number in range(3):
            assert agent.apply(quick(f"slow{number}")).status_code == 201
        big = manifest("big", cpu=4_000)
        assert agent.apply(big).status_code == 422
        assert agent.request("DELETE", "/pods", params={"name": "big"}).status_code == 200
        assert time.monotonic() - start < QUICK_SECONDS
        for number in range(3):
            agent.until_phase(f"slow{number}", "Succeeded")
        assert time.monotonic() - start < 15


def test_a_container_that_is_moved_while_it_starts_comes_up_where_it_belongs():
    with AgentProcess() as agent:
        slow_supervisors(agent, 3)
        assert agent.apply(manifest("shared")).status_code == 201
        answer = agent.apply(manifest("own", cpu=1))
        if answer.status_code == 422:
            pytest.skip("this machine has no CPU to give away")
        agent.until_phase("shared", "Running")
        agent.until_phase("own", "Running")
        pods = agent.pod_list()
        own, shared = (
            parse_list(allowed_cpus(pods[name]["numalign"]["containers"]["c"]["pid"]))
            for name in ("own", "shared")
        )
        assert own.bit_count() == 1
        assert not own & shared


def test_a_pod_that_is_deleted_while_it_starts_is_gone_soon_after():
    with AgentProcess() as agent:
        slow_supervisors(agent, 2)
        assert agent.apply(manifest("a")).status_code == 201
        assert agent.request("DELETE", "/pods", params={"name": "a"}).status_code in {200, 202}
        agent.until(lambda: not agent.pod_list() and not agent.records(), "the pod to be gone")


def test_a_loop_that_was_held_up_is_told_in_readyz_metrics_and_log():
    with AgentProcess() as agent:
        text = agent.request("GET", "/metrics").text
        assert 'numalign_loop_delay_seconds_bucket{le="1.0"}' in text.replace('le="1"', 'le="1.0"')
        agent.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # what is measured here is time itself
        agent.process.send_signal(signal.SIGCONT)
        agent.until(lambda: agent.request("GET", "/readyz").status_code == 503, "the problem")
        [problem] = agent.request("GET", "/readyz").json()["problems"]
        assert "the loop was held up for" in problem
        assert "loop_delayed" in agent.said()
        assert agent.request("GET", "/healthz").status_code == 200
