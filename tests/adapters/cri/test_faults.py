"""Runtimes that hang, answer nonsense or lack events: what a real one cannot be made to show.

The server here is small and knows only what a test gives it.
"""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from tests.adapters.grpc.plugin_peers import run
from tests.sockets import short_directory

from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement
from numalign.adapters.cri import client as cri_client
from numalign.adapters.cri.client import CriClient, Deadlines
from numalign.adapters.cri.groups import PodGroups
from numalign.adapters.cri.runtime import CriRuntime, StartRequest
from numalign.adapters.processes.values import Running
from numalign.core.errors import ConfigError, PeerError, PostponedError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet
from numalign.wire.grpc import cri as wire
from numalign.wire.grpc._generated import cri_v1_pb2 as pb
from numalign.wire.grpc.cri_values import ContainerSpec, PullPolicy, Resources, SandboxSpec

SHORT = Deadlines(hello=0.3, ask=0.3, place=0.3, make=0.3, stop_extra=0.3, pull=0.3)
VERSION = pb.VersionResponse(runtime_name="fake", runtime_api_version="v1").SerializeToString()
GARBAGE = b"\xff\xff\xff"


async def hang(_request):
    await asyncio.Event().wait()


class Server(grpc.GenericRpcHandler):
    """Answers by method name: bytes, or a coroutine function; Unimplemented for all others."""

    def __init__(self, answers):
        self.answers = {f"/runtime.v1.{name}": answer for name, answer in answers.items()}
        self.asked = []

    def service(self, details):
        answer = self.answers.get(details.method)
        if answer is None:
            return None

        async def handle(request, _context):
            self.asked.append((details.method.rpartition("/")[2], request))
            return await answer(request) if callable(answer) else answer

        return grpc.unary_unary_rpc_method_handler(handle)


@asynccontextmanager
async def served(**answers):
    """A client of a server with answers such as ``RuntimeService_Version=b''``."""
    with short_directory() as directory:
        handler = Server({name.replace("_", "/"): found for name, found in answers.items()})
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        path = directory / "cri.sock"
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        client = CriClient(path, SHORT)
        try:
            yield client, handler
        finally:
            await client.close()
            await server.stop(None)


def runtime_on(client, **more):
    groups = PodGroups(CgroupTree([], "numalign-none"), [])
    return CriRuntime(
        client, "fake", groups, "me", log_path=lambda u, c: Path("/nowhere") / u / c, **more
    )


def request():
    resources = Resources(limits=Limits(), cpus=CpuSet.of([0]))
    return StartRequest(
        sandbox=SandboxSpec(
            uid="u", name="p", namespace="n", log_directory="/nowhere", cgroup_parent="/x"
        ),
        qos=Qos.BURSTABLE,
        pod_limits=Limits(),
        container=ContainerSpec(
            name="c", attempt=0, image="web:1", log_path="c.log", resources=resources
        ),
        pull=PullPolicy.IF_MISSING,
    )


def listed(state=pb.CONTAINER_RUNNING, container_id="c1"):
    labels = {wire.POD_UID: "u", wire.CONTAINER_NAME: "c"}
    metadata = pb.ContainerMetadata(name="c")
    one = pb.Container(id=container_id, metadata=metadata, state=state, labels=labels)
    return pb.ListContainersResponse(containers=[one]).SerializeToString()


def report(state=pb.CONTAINER_RUNNING, **more):
    status = pb.ContainerStatus(id="c1", state=state, **more)
    return pb.ContainerStatusResponse(status=status).SerializeToString()


# Finding a runtime.


def test_every_usual_socket_is_named_when_none_answers(tmp_path, monkeypatch):
    paths = (tmp_path / "containerd.sock", tmp_path / "crio.sock")
    monkeypatch.setattr(cri_client, "SOCKETS", paths)

    async def work():
        with pytest.raises(ConfigError) as caught:
            await cri_client.connected(None)
        for path in paths:
            assert f"{path}: not there" in str(caught.value)
        assert "--cri-socket" in str(caught.value)

    run(work())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (GARBAGE, "no container runtime"),
        (pb.VersionResponse(runtime_api_version="v1alpha2").SerializeToString(), "'v1alpha2'"),
    ],
)
def test_a_stranger_behind_the_socket_is_told(answer, words):
    async def work():
        async with served(RuntimeService_Version=answer) as (client, _):
            with pytest.raises(ConfigError, match=words):
                await client.version()

    run(work())


def test_a_runtime_that_hangs_is_told_in_time():
    async def work():
        async with served(RuntimeService_Version=hang) as (client, _):
            with pytest.raises(PeerError, match=r"Version: .*deadline exceeded") as caught:
                await client.version()
            assert caught.value.retry

    run(work(), seconds=5)


# Calls.


@pytest.mark.parametrize("name", ["sandboxes", "containers", "report", "image"])
def test_nonsense_is_an_error_and_not_a_crash(name):
    methods = ("RuntimeService_ListPodSandbox", "RuntimeService_ListContainers")
    methods += ("RuntimeService_ContainerStatus", "ImageService_ImageStatus")

    async def work():
        async with served(**dict.fromkeys(methods, GARBAGE)) as (client, _):
            argument = {} if name in {"sandboxes", "containers"} else "x"
            with pytest.raises(PeerError, match="the runtime answered"):
                await getattr(client, name)(argument)

    run(work())


def test_a_move_that_hangs_is_a_refusal():
    async def work():
        answers = {
            "RuntimeService_ListContainers": listed(),
            "RuntimeService_ContainerStatus": report(),
            "RuntimeService_UpdateContainerResources": hang,
        }
        async with served(**answers) as (client, _):
            runtime = runtime_on(client)
            await runtime.adopt()
            with pytest.raises(PeerError, match=r"container c of pod u: .*deadline exceeded"):
                await runtime.pin_all({("u", "c"): CpusetPlacement(CpuSet.of([1]))})

    run(work(), seconds=5)


@pytest.mark.parametrize("stuck", ["ImageService_ImageStatus", "ImageService_PullImage"])
def test_a_start_that_hangs_is_put_off(stuck):
    answers = {"ImageService_ImageStatus": b"", "ImageService_PullImage": b""}

    async def work():
        async with served(**{**answers, stuck: hang}) as (client, _):
            with pytest.raises(PostponedError, match="deadline exceeded") as caught:
                await runtime_on(client).start(request())
            wanted = "ErrImagePull" if "Pull" in stuck else "RuntimeUnavailable"
            assert caught.value.reason == wanted

    run(work(), seconds=5)


def test_a_stop_ends_a_pull_that_takes_for_ever():
    async def work():
        answers = {"ImageService_ImageStatus": b"", "ImageService_PullImage": hang}
        async with served(**answers) as (client, handler):
            client._deadlines = Deadlines()  # so that only the stop can end it
            runtime = runtime_on(client)
            starting = asyncio.create_task(runtime.start(request()))
            while not any(name == "PullImage" for name, _ in handler.asked):
                await asyncio.sleep(0.01)
            await runtime.stop("u", "c", 30.0)
            with pytest.raises(PeerError, match="stopped while its image"):
                await starting

    run(work(), seconds=5)


# Hearing of ends.


def test_without_a_stream_of_events_the_list_is_looked_at():
    found = {"state": pb.CONTAINER_RUNNING}

    async def containers(_request):
        return listed(found["state"])

    async def status(_request):
        return report(found["state"], exit_code=9, reason="OOMKilled")

    async def work():
        answers = {
            "RuntimeService_ListContainers": containers,
            "RuntimeService_ContainerStatus": status,
        }
        async with served(**answers) as (client, _):
            runtime = runtime_on(client)
            await runtime.adopt()
            exits = runtime.exits()
            waiting = asyncio.create_task(anext(exits))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            found["state"] = pb.CONTAINER_EXITED
            ended = await waiting
            assert (ended.pod_uid, ended.container, ended.code) == ("u", "c", 9)
            assert ended.oom_killed
            await exits.aclose()

    run(work(), seconds=10)


def test_a_container_in_limbo_is_ended_and_told():
    states = [pb.CONTAINER_UNKNOWN]

    async def stop(_request):
        states.append(pb.CONTAINER_EXITED)
        return b""

    async def status(_request):
        return report(states[-1], exit_code=137)

    async def work():
        answers = {
            "RuntimeService_ListContainers": listed(pb.CONTAINER_UNKNOWN),
            "RuntimeService_ContainerStatus": status,
            "RuntimeService_StopContainer": stop,
        }
        async with served(**answers) as (client, _):
            [ended] = await runtime_on(client).adopt()
            assert ended.code == 137

    run(work())


# Found in the middle of a start.


def starting(states):
    """A runtime whose one container is being started; each refusal brings it a state further."""

    async def containers(_request):
        return listed(states[0])

    async def status(_request):
        return report(states[0])

    async def remove(_request):
        if states[0] is pb.CONTAINER_CREATED:
            if len(states) > 1:
                states.pop(0)
            raise RuntimeError("container is in starting state, can't be removed")
        return b""

    return served(
        RuntimeService_ListContainers=containers,
        RuntimeService_ContainerStatus=status,
        RuntimeService_RemoveContainer=remove,
    )


def removals(handler):
    return sum(name == "RemoveContainer" for name, _ in handler.asked)


def test_a_container_that_is_still_being_started_is_adopted_once_it_runs():
    async def work():
        states = [pb.CONTAINER_CREATED] * 3 + [pb.CONTAINER_RUNNING]
        async with starting(states) as (client, handler):
            [found] = await runtime_on(client).adopt()
            assert (found.pod_uid, found.container) == ("u", "c")
            assert isinstance(found, Running)
            assert removals(handler) == 3, "one that runs is not removed"

    run(work())


def test_a_start_that_never_ends_keeps_no_agent_from_starting():
    async def work():
        async with starting([pb.CONTAINER_CREATED]) as (client, handler):
            assert await runtime_on(client, settle_seconds=0.3).adopt() == []
            assert removals(handler) > 1

    run(work())


def several(*attempts):
    found = pb.ListContainersResponse()
    for number, state in attempts:
        labels = {wire.POD_UID: "u", wire.CONTAINER_NAME: "c"}
        metadata = pb.ContainerMetadata(name="c", attempt=number)
        found.containers.add(id=f"c{number}", metadata=metadata, state=state, labels=labels)
    return found.SerializeToString()


async def refuse(_request):
    raise RuntimeError("container is in starting state, can't be removed")


def test_an_earlier_attempt_that_cannot_be_removed_keeps_no_agent_from_starting():
    both = several((0, pb.CONTAINER_EXITED), (1, pb.CONTAINER_RUNNING))

    async def work():
        async with served(
            RuntimeService_ListContainers=both,
            RuntimeService_ContainerStatus=report(),
            RuntimeService_RemoveContainer=refuse,
        ) as (client, handler):
            [found] = await runtime_on(client).adopt()
            assert isinstance(found, Running)
            assert found.attempt == 1
            assert removals(handler) == 1

    run(work())


@pytest.mark.parametrize("answer", [refuse, hang, GARBAGE])
def test_a_container_that_the_runtime_says_nothing_about_is_taken_to_run(answer):
    async def work():
        async with served(
            RuntimeService_ListContainers=listed(), RuntimeService_ContainerStatus=answer
        ) as (client, _):
            runtime = runtime_on(client)
            [found] = await runtime.adopt()
            assert isinstance(found, Running)
            assert found.pid == 0

    run(work())


def test_a_runtime_that_is_not_ready_yet_is_asked_again():
    refusals = 2

    async def coming_up(_request):
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise RuntimeError("server is not initialized yet")
        return listed()

    async def work():
        async with served(
            RuntimeService_ListContainers=coming_up, RuntimeService_ContainerStatus=report()
        ) as (client, handler):
            [found] = await runtime_on(client).adopt()
            assert isinstance(found, Running)
            assert sum(name == "ListContainers" for name, _ in handler.asked) == 3

    run(work())
