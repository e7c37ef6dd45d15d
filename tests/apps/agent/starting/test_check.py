"""What ``state check`` foretells is what a start then does."""

import asyncio
import itertools
import json
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess

from numalign.adapters.sources import discovery
from numalign.apps.agent import events, run, saved
from numalign.apps.agent.run import Options, assemble
from numalign.apps.agent.starting.check import Asked, Outcome, check_start
from numalign.apps.agent.watching.manifests import manifest_events, remembered
from numalign.core.errors import ConfigError, NumalignError
from numalign.wire.checkpoints import state_files
from numalign.wire.pods.manifests import load_all

MACHINES = ("2s:1n:4c:2t", "1s:2n:6c", "2s:2n:3c:2t", "1s:1n:8c")
RESOURCE = "example.com/fpga"
NOW = 1_000.0


def kubelet(rng):
    memory = rng.choice(["None", "Static", "Static"])
    found = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": rng.choice(["none", "static", "static", "static"]),
        "topologyManagerPolicy": rng.choice(
            ["none", "best-effort", "restricted", "single-numa-node"]
        ),
        "topologyManagerScope": rng.choice(["container", "pod"]),
        "reservedSystemCPUs": rng.choice(["0", "0-1", "3"]),
        "kubeReserved": {"memory": "924Mi"},
        "evictionHard": {"memory.available": "100Mi"},
        "memoryManagerPolicy": memory,
    }
    if memory == "Static":
        amount = rng.choice(["1Gi"] * 5 + ["2Gi"])  # with 2Gi nothing starts
        found["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": amount}}]
    if found["cpuManagerPolicy"] == "static" and rng.random() < 0.3:
        found["cpuManagerPolicyOptions"] = {
            rng.choice(["strict-cpu-reservation", "full-pcpus-only"]): "true"
        }
    return found


def devices(rng):
    count = rng.choice([0, 2, 4, 5])
    nodes = [rng.choice([[0], [1], None]) for _ in range(count)]
    return [{"id": f"f{i}", **({"nodes": n} if n else {})} for i, n in enumerate(nodes)]


def configured(rng, root, name):
    (root / f"{name}-kubelet.json").write_text(json.dumps(kubelet(rng)))
    found = {
        "apiVersion": "numalign.io/v1",
        "kind": "AgentConfiguration",
        "kubernetes": rng.choice(["1.36", "1.36", "1.37"]),
        "fidelity": rng.choice(["kubelet", "safe"]),
        "kubeletConfig": str(root / f"{name}-kubelet.json"),
        "devices": [{"resource": RESOURCE, "devices": devices(rng)}],
    }
    path = root / f"{name}.json"
    path.write_text(json.dumps(found))
    return path


def pod(rng, name):
    limits = {"cpu": rng.choice([1, 2, 3, "500m"]), "memory": rng.choice(["64Mi", "1Gi", "40Gi"])}
    if rng.random() < 0.5:
        limits[RESOURCE] = rng.choice([1, 2])
    containers = [{"name": "c", "resources": {"limits": limits}}]
    spec = {"restartPolicy": rng.choice(["Always", "Never"]), "containers": containers}
    if rng.random() < 0.2:
        spec["initContainers"] = [{"name": "i", "resources": {"limits": limits}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def manifest(rng, place, name):
    (place / f"{name}.json").write_text(json.dumps(pod(rng, name)))


async def started(options):
    """The agent after a start, once every source of pods has spoken."""
    parts = await assemble(options, lambda: NOW)
    loop = asyncio.create_task(parts.agent.run(parts.first))
    if parts.manifests:
        parts.manifests.remember(remembered(parts.agent.state.pods))
        for event in manifest_events(parts.manifests.changes(), NOW):
            parts.agent.tell(event)
    parts.agent.tell(events.SourcesReady(NOW))
    await settled(parts.agent)
    return parts.agent, loop


async def settled(agent):
    """Waits until all that was told is handled, and what came of it too."""
    quiet = 0
    while quiet < 3:
        before = agent.state
        await agent.delete("nobody")  # answered behind everything that was told before
        await asyncio.sleep(0.002)
        quiet = quiet + 1 if agent.state is before else 0


async def stopped(agent, loop):
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    await agent.close()


async def lived(options, rng):
    """An agent that has admitted some pods and is gone again."""
    agent, loop = await started(options)
    for number in range(rng.randrange(6)):
        record = load_all(json.dumps(pod(rng, f"api-{number}")).encode(), source="test")[0]
        await agent.submit(record, uid=f"uid-{number}")
        await asyncio.sleep(0)
    await settled(agent)
    await stopped(agent, loop)


def damage(rng, state):
    there = [state / place for place in state_files.PLACES.values() if (state / place).exists()]
    if not there:
        return
    path = rng.choice(there)
    if rng.random() < 0.5:
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])


async def foretold(options):
    asked = Asked(
        options.state_dir,
        run.read_config(options.config),
        discovery.discover(options.machine),
        None if options.runtime == "none" else options.runtime,
        None,
        run.manifests_of(options.pods_dir, options.host_name),
    )
    found = await check_start(asked, NOW)
    if found.error:
        return found.error, None
    left = {Outcome.ENDS, Outcome.FREED}
    kept = {p.name: (p.reason, p.message) for p in found.pods if p.outcome not in left}
    return "", kept


async def done(options, before):
    try:
        agent, loop = await started(options)
    except ConfigError:
        raise
    except NumalignError as error:
        return str(error), None
    state = agent.state
    await stopped(agent, loop)
    return state.halted, {
        f"default/{p.pod.name}": (p.reason, p.message)
        for uid, p in state.pods.items()
        if uid not in before and not p.deleting
    }


async def one_round(rng, root):
    """A life, a change of everything, what is foretold and what happens."""
    state, pods = root / "state", root / "pods"
    pods.mkdir()
    for number in range(rng.randrange(4)):
        manifest(rng, pods, f"file-{number}")
    options = Options(state, pods, configured(rng, root, "a"), rng.choice(MACHINES), "none")
    try:
        await lived(options, rng)
    except NumalignError:
        return None
    machine = options.machine if rng.random() < 0.8 else rng.choice(MACHINES)
    config = options.config if rng.random() < 0.3 else configured(rng, root, "b")
    if rng.random() < 0.2:
        damage(rng, state)
    if rng.random() < 0.5:
        manifest(rng, pods, "new")
        (pods / "file-0.json").unlink(missing_ok=True)
    then = Options(state, pods, config, machine, "none")
    known = saved.load((state / saved.FILE_NAME).read_bytes())
    before = {uid for uid, p in known.items() if p.is_terminal}
    copy = root / "copy"
    shutil.copytree(state, copy)
    said = await foretold(then)
    assert _files(state) == _files(copy), "a check writes nothing"
    return said, await done(then, before)


def _files(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("seed", range(60))
def test_a_start_does_what_was_foretold(seed, tmp_path):
    rng = random.Random(f"check {seed}")
    for number in itertools.count():
        root = tmp_path / str(number)
        root.mkdir()
        found = asyncio.run(one_round(rng, root))
        if found is not None:
            break
    said, happened = found
    assert said == happened


def test_five_pods_with_declared_devices_are_kept(tmp_path):
    """The kubelet does not ask again for devices of containers that run."""
    config = {
        "apiVersion": "numalign.io/v1",
        "kind": "AgentConfiguration",
        "fidelity": "kubelet",
        "devices": [{"resource": RESOURCE, "devices": [{"id": f"f{i}"} for i in range(5)]}],
    }
    (tmp_path / "agent.json").write_text(json.dumps(config))
    options = Options(tmp_path / "s", None, tmp_path / "agent.json", MACHINES[0], "none")
    limits = {"cpu": 1, "memory": "64Mi", RESOURCE: 1}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}

    async def work():
        agent, loop = await started(options)
        for number in range(5):
            one = {"kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}
            record = load_all(json.dumps(one).encode(), source="test")[0]
            assert (await agent.submit(record, uid=f"uid-{number}")).accepted
        await stopped(agent, loop)
        running = await foretold(options)
        ended = await foretold(replace(options, runtime="process"))
        return running, ended

    running, ended = asyncio.run(work())
    assert running == ("", {f"default/p{i}": ("", "") for i in range(5)})
    # As after a reboot: nothing runs, and the devices are not there yet.
    assert {reason for reason, _ in ended[1].values()} == {"UnexpectedAdmissionError"}


def is_gone(pid):
    """A process that was killed ends a moment later, and holds what it has until then."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_what_still_runs_is_found_as_a_start_finds_it():
    config = json.dumps(
        {
            "apiVersion": "numalign.io/v1",
            "kind": "AgentConfiguration",
            "fidelity": "kubelet",
            "devices": [{"resource": RESOURCE, "devices": [{"id": "f0"}]}],
        }
    )
    limits = {"cpu": "100m", "memory": "64Mi", RESOURCE: 1}
    container = {"name": "c", "command": ["sleep", "100"], "resources": {"limits": limits}}
    one = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    with AgentProcess(config=config) as agent:
        assert agent.apply(one).status_code == 201
        agent.until_phase("p", "Running")
        agent.stop()
        options = Options(agent.state, None, agent.root / "config.yaml", None, "process")
        assert asyncio.run(foretold(options)) == ("", {"default/p": ("", "")})
        for run_ in (agent.state / "runs").glob("*/*/run.json"):
            pids = json.loads(run_.read_text())
            for pid in (pids["supervisor"], pids["child"]):
                os.kill(pid, signal.SIGKILL)
                agent.until(lambda pid=pid: is_gone(pid), f"process {pid} to end")
        error, pods = asyncio.run(foretold(options))
        assert (error, pods["default/p"][0]) == ("", "UnexpectedAdmissionError")
        agent.start()
        agent.until_phase("p", "Failed")
        assert agent.pod_list()["p"]["status"]["message"] == pods["default/p"][1]
