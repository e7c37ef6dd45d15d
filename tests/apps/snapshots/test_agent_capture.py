"""A bundle of our own agent replays to exactly the agent's state."""

import json
import random
import subprocess
import sys

import httpx
import pytest
from tests.apps.agent.processes import AgentProcess
from tests.web.in_memory_agent import InMemoryAgent, manifest, served

from numalign.adapters.sources.bundles import bundle_from_bytes
from numalign.adapters.sources.discovery import discover
from numalign.apps.agent import events as ev
from numalign.apps.agent.config import AgentConfig, DeclaredDevices
from numalign.apps.agent.model import AgentState
from numalign.apps.agent.run import setup_of
from numalign.apps.agent.step import step
from numalign.apps.agent.views.captured import captured
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.replaying import replayed
from numalign.apps.snapshots.sources import inputs_in, inputs_of
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.devices.devices import Device
from numalign.core.settings import ReservedMemory, Version
from numalign.core.values.quantity import Quantity
from numalign.wire.bundle import packed
from numalign.wire.checkpoints.state_files import encoded
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.pods.manifests import load_all

FPGA = "example.com/fpga"
DEVICES = (
    Device("f0", (0,)),
    Device("f1", (1,), healthy=False),
    Device("f2", ()),
    Device("f3"),
    Device("f4", (0, 1)),
)


def agents_config(version):
    kubelet = KubeletConfig(
        cpu_policy="static",
        memory_policy="Static",
        topology_policy="restricted",
        reserved_system_cpus="0,8",
        kube_reserved={"memory": "512Mi"},
        reserved_memory=(ReservedMemory(0, "memory", Quantity.parse("612Mi")),),
        pods_max=37,
    )
    return AgentConfig(version=version, kubelet=kubelet, devices=(DeclaredDevices(FPGA, DEVICES),))


class DecidingAgent:
    """The agent's own step without a runtime."""

    def __init__(self, version=Version.V1_36):
        self.machine = discover("2s:1n:8c:2t,mem=16Gi")
        self.setup, _ = setup_of(agents_config(version), self.machine)
        self.state = AgentState(hosts.start(self.setup.host))
        for name, found in self.setup.declared.items():
            self.tell(ev.DevicesReported(name, found, 0.0, is_plugin=False))
        self.tell(ev.SourcesReady(0.0))

    def tell(self, event):
        self.state, effects = step(self.setup, self.state, event)
        for effect in effects:
            if isinstance(effect, ev.StartContainer):
                uid, name, attempt = effect.uid, effect.container, effect.attempt
                self.tell(ev.ContainerStarted(uid, name, attempt, 4242, 0.0))
            elif isinstance(effect, ev.StopContainer):
                attempt = self.state.pods[effect.uid].containers[effect.container].restarts
                self.tell(ev.ContainerExited(effect.uid, effect.container, attempt, 143, 0.0))

    def capture(self):
        data = packed(captured(self.setup, self.state, self.machine, "2030-01-31T08:00:00Z"))
        return loaded(inputs_in(bundle_from_bytes(data, "agent"), "agent"))


def random_pod(rng, number):
    cpu = rng.choice(["500m", "1", "2", "3", "5"])
    limits = {"cpu": cpu, "memory": rng.choice(["1Gi", "3Gi", "9Gi"])}
    if rng.random() < 0.3:
        limits[FPGA] = "1"
    containers = [{"name": "a", "resources": {"limits": limits}}]
    if rng.random() < 0.3:
        containers.append({"name": "b", "env": [{"name": "PASSWORD", "value": "hunter2"}]})
    spec = {"containers": containers}
    if rng.random() < 0.3:
        spec["initContainers"] = [{"name": "i", "resources": {"limits": limits}}]
    return {"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}


def told(resource):
    """All that is known of a resource, since it is compared by identity."""
    return (
        resource.ids,
        resource.healthy,
        resource.places,
        resource.placeless,
        resource.topology_given,
    )


def assert_same(found, agent):
    setup, state = agent.setup, agent.state.host
    ours, theirs = (
        hosts.cleaned(setup.host, found.snapshot.state),
        hosts.cleaned(setup.host, state),
    )
    assert found.snapshot.host.settings == setup.host.settings
    assert found.snapshot.machine == agent.machine
    assert found.snapshot.totals == setup.totals
    assert ours.pods == theirs.pods
    assert ours.cpu == theirs.cpu
    assert ours.memory == theirs.memory
    assert ours.devices.entries == theirs.devices.entries
    assert {name: ids for name, ids in ours.devices.in_use.items() if ids} == {
        name: ids for name, ids in theirs.devices.in_use.items() if ids
    }
    assert {name: told(r) for name, r in ours.devices.resources.items()} == {
        name: told(r) for name, r in theirs.devices.resources.items()
    }
    files = encoded(state, setup.host.settings)
    assert dict(found.inputs.state) == files
    assert found.unknown == frozenset()


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("seed", range(3))
def test_a_bundle_of_the_agent_replays_to_its_state(seed, version):
    rng = random.Random(seed)
    agent = DecidingAgent(version)
    admitted = []
    refused = 0
    for number in range(25):
        if admitted and rng.random() < 0.35:
            agent.tell(ev.PodDeleted(admitted.pop(rng.randrange(len(admitted))), 0.0))
        else:
            record = load_all(json.dumps(random_pod(rng, number)).encode(), source="test")[0]
            uid = f"uid-{number}"
            agent.tell(ev.PodSubmitted(uid, record, "api", 0.0))
            if uid in agent.state.host.pods:
                admitted.append(uid)
            else:
                refused += 1
        assert_same(agent.capture(), agent)
    assert admitted
    assert refused


def test_a_bundle_of_the_agent_is_sound_and_holds_no_environment():
    agent = DecidingAgent()
    pod = random_pod(random.Random(1), 1)
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    pod["spec"]["containers"][0]["command"] = ["serve", "--token=hunter2"]
    pod["metadata"]["annotations"] = {"secret": "hunter2"}
    record = load_all(json.dumps(pod).encode(), source="test")[0]
    agent.tell(ev.PodSubmitted("uid-1", record, "api", 0.0))
    assert "uid-1" in agent.state.host.pods
    bundle = captured(agent.setup, agent.state, agent.machine, "2030-01-31T08:00:00Z")
    assert all(b"hunter2" not in data for data in bundle.files.values())
    again = replayed(inputs_in(bundle, "agent"))
    assert again.is_sound
    assert again.kept == ("default/p1",)


def test_the_same_state_gives_the_same_bytes():
    agent = DecidingAgent()
    one, two = (
        packed(captured(agent.setup, agent.state, agent.machine, "2030-01-31T08:00:00Z"))
        for _ in range(2)
    )
    assert one == two


def test_the_api_gives_the_bundle(tmp_path, short_path):
    with served(InMemoryAgent(tmp_path), short_path) as host:
        with over(host) as client:
            assert client.post("/pods", json=manifest("web", gpus=1)).status_code == 201
        for url in (f"unix://{host.socket}", host.tcp):
            found = loaded(inputs_of(url))
            assert_same(found, host.agent)
            [pod] = found.snapshot.state.pods.values()
            assert pod.name == "web"


def test_nobody_at_the_other_end_is_one_clear_error(tmp_path):
    with pytest.raises(PeerError, match="no agent answers there"):
        inputs_of(f"unix://{tmp_path}/none.sock")
    with pytest.raises(ConfigError, match="expected one such as"):
        inputs_of("http://")


def over(host):
    transport = httpx.HTTPTransport(uds=str(host.socket), verify=False)
    return httpx.Client(transport=transport, base_url="http://agent", timeout=10)


def numalign(*args, **more):
    command = [sys.executable, "-m", "numalign", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


@pytest.mark.e2e
@pytest.mark.e2e_quick
def test_a_running_agent_can_be_captured_and_asked(tmp_path):
    with AgentProcess(arguments=["--runtime", "none", "--machine", "epyc-2s-nps4"]) as agent:
        body = (
            b'{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c",'
            b'"resources":{"limits":{"cpu":"4","memory":"1Gi"}}}]}}'
        )
        assert agent.request("POST", "/pods", content=body).status_code == 201
        file = tmp_path / "agent.tar.gz"
        url = f"unix://{agent.state}/agent.sock"
        done = numalign("capture", "--on", url, "-o", str(file))
        assert done.returncode == 0, done.stderr
        found = loaded(inputs_of(str(file)))
        for name, data in found.inputs.state.items():
            assert (agent.state / name).read_bytes() == data
        asked = numalign("admit", "--on", url, "-f", "-", input=body.decode())
        assert asked.returncode == 0, asked.stderr
        assert "default/a" in asked.stdout
        assert numalign("diff", str(file), url).stdout == "no difference\n"
