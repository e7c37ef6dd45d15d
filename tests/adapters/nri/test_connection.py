"""A plugin process against runtimes that misbehave: it refuses, waits and connects again."""

import random
import socket
import struct
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.adapters.nri.runtime import Runtime
from tests.e2e.nri.plugin import until
from tests.sockets import make_short_directory

from numalign.wire.nri import messages, ttrpc
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb

pytestmark = pytest.mark.e2e_quick

CONNECTIONS = 6  # the waits between them grow


@pytest.fixture
def plugin():
    root = make_short_directory("ng-")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "nri.sock"))
        server.listen(5)
        server.settimeout(20)
        log = root / "log"
        command = [
            *(sys.executable, "-m", "numalign", "nri", "--socket", str(root / "nri.sock")),
            *("--state-dir", str(root / "s"), "--listen", "", "--machine", "2s:1n:4c:2t"),
            *("--kubelet-dir", str(root), "--kubelet-config", str(root / "none.yaml")),
        ]
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
        runtimes = []

        def accepted():
            runtimes.append(Runtime(server.accept()[0]))
            return runtimes[-1]

        try:
            yield accepted, process, log
        finally:
            process.kill()
            process.wait()
            for one in runtimes:
                one.connection.close()


def test_a_whole_conversation(plugin):
    accepted, _, log = plugin
    runtime = accepted()
    found = runtime.register()
    assert (found.plugin_name, found.plugin_idx) == ("numalign", "10")
    answer = runtime.call("Configure", pb.ConfigureRequest(runtime_name="test"))
    assert pb.ConfigureResponse.FromString(answer.payload).events == messages.EVENT_MASK
    pod = pb.PodSandbox(id="s", uid="u", name="p", namespace="n")
    pod.linux.cgroup_parent = "/kubepods/podu"
    half = runtime.call("Synchronize", pb.SynchronizeRequest(pods=[pod], more=True))
    assert pb.SynchronizeResponse.FromString(half.payload).more
    runtime.call("Synchronize", pb.SynchronizeRequest())
    assert runtime.call("PostStartContainer", pb.Empty()).code == ttrpc.Code.UNIMPLEMENTED
    assert runtime.call("Configure", pb.Empty(), service="other").code == ttrpc.Code.UNIMPLEMENTED
    container = pb.Container(id="c", pod_sandbox_id="s", name="db")
    container.linux.resources.cpu.shares.value = 2048
    container.linux.resources.cpu.quota.value = 200_000
    container.linux.resources.cpu.period.value = 100_000
    answer = runtime.call(
        "CreateContainer", pb.CreateContainerRequest(pod=pod, container=container)
    )
    placed = pb.CreateContainerResponse.FromString(answer.payload)
    assert placed.adjust.linux.resources.cpu.cpus == "1,9"
    assert runtime.call("CreateContainer", b"\xff\xff").code == ttrpc.Code.INVALID_ARGUMENT
    for method in ("StopPodSandbox", "RemovePodSandbox"):  # of a newer runtime
        assert not runtime.call(method, pb.PodEvent(pod=pod)).code
    until(lambda: "pod_released" in log.read_text(), "the CPUs to come back")


def test_what_cannot_be_saved_is_refused_and_has_not_happened(plugin):
    accepted, _, log = plugin
    runtime = accepted()
    runtime.register()
    runtime.call("Configure", pb.ConfigureRequest())
    runtime.call("Synchronize", pb.SynchronizeRequest())
    state = log.parent / "s"

    def created(number):
        pod = pb.PodSandbox(id=f"s{number}", uid=f"u{number}", name="p", namespace="n")
        pod.linux.cgroup_parent = "/kubepods/podu"
        one = pb.Container(id=f"c{number}", pod_sandbox_id=pod.id, name="db")
        one.linux.resources.cpu.shares.value = 2048
        answer = runtime.call("CreateContainer", pb.CreateContainerRequest(pod=pod, container=one))
        placed = pb.CreateContainerResponse.FromString(answer.payload)
        return answer, placed.adjust.linux.resources.cpu.cpus

    assert created(1)[1] == "1,9"
    state.rename(state.with_name("gone"))
    answer, _ = created(2)
    assert answer.message.startswith(
        f"numalign: StateNotSaved: {state}/nri_state: cannot write it: No such file"
    )
    # The log is written beside the plugin's loop.
    until(lambda: "state_not_saved" in log.read_text(), "the log")
    state.with_name("gone").rename(state)
    assert created(3)[1] == "2,10", "nobody holds what was refused"


def test_garbage_and_broken_connections_are_survived(plugin):
    accepted, process, log = plugin
    rng = random.Random(17)
    for number in range(CONNECTIONS):
        runtime = accepted()
        with suppress(OSError, AssertionError):
            if number % 2:
                runtime.register()
            if number % 3 == 0:
                runtime.connection.sendall(rng.randbytes(5000))
            elif number % 3 == 1:
                runtime.connection.sendall(struct.pack(">II", 1, 0xFFFFFFFF))
            runtime.connection.close()
        assert process.poll() is None, log.read_text()
    runtime = accepted()
    runtime.register()
    assert not runtime.call("Configure", pb.ConfigureRequest()).code
    assert "Traceback" not in log.read_text()
