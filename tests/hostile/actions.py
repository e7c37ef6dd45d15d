"""What a careless or hostile user, operator or kernel does to an agent."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.adapters.grpc.plugin_peers import RESOURCE
from tests.apps.agent.processes import found_below, manifest
from tests.hostile.plugin import MODES
from tests.hostile.world import marked

from numalign.adapters.local.paths import cgroup_parent

DEVICE_SHARE = 0.3  # of the pods that want a device

JUNK = (
    b"",
    b"{",
    b"kind: []\n",
    b"\xff\xfe\x00",
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\\ud800"},"spec":{"containers":[]}}',
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"containers":"c"}}',
    b'{"kind":["Pod"]}',
    b"[" * 100_000,
    b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b]\n",
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"e"},"spec":{"containers":[{"name":"c",'
    b'"command":["true"],"env":[{"name":"A","value":"$(A)$(A)$(A)$(A)"}]}]}}',
)


def pod(world, name=None):
    """A pod of a random sort; its command carries the agent's marker."""
    rng, marker = world.rng, world.agent.marker
    script = rng.choice(
        [
            "sleep 1000",
            "sleep 1000",
            "sleep 1000 & sleep 1000",
            "setsid sleep 1000 & sleep 1000",
            "trap '' TERM; while :; do sleep 0.2; done",
            "sleep 0.2",
            "exit 3",
            "kill -9 $$",
        ]
    )
    command = ("sh", "-c", f": {marker}; {script}", marker)
    spec = {"restartPolicy": rng.choice(["Always", "OnFailure", "Never"])}
    cpu = rng.choice([None, 1, "500m", "100m"])
    found = manifest(name or world.new_name(), cpu=cpu, command=command, **spec)
    if rng.random() < DEVICE_SHARE:
        resources = found["spec"]["containers"][0].setdefault("resources", {})
        for amounts in ("requests", "limits"):
            resources.setdefault(amounts, {})[RESOURCE] = str(rng.choice([1, 1, 2]))
    return found


# Files.


def write_manifest(world):
    found = pod(world)
    path = world.agent.pods / f"{found['metadata']['name']}.json"
    path.write_text(json.dumps(found))


def change_manifest(world):
    path = _manifest(world)
    if path is not None:
        path.write_text(json.dumps(pod(world, path.stem)))


def put_manifest_back(world):
    path = _manifest(world)
    if path is not None:
        before = path.read_bytes()
        path.write_text(json.dumps(pod(world, path.stem)))
        time.sleep(world.rng.random() * 0.5)
        path.write_bytes(before)


def remove_manifest(world):
    path = _manifest(world)
    if path is not None:
        path.unlink()


def rename_manifest(world):
    path = _manifest(world)
    if path is not None:
        path.rename(path.with_name(f"{world.new_name()}.json"))


def damage_manifest(world):
    path = _manifest(world)
    if path is not None:
        data = bytearray(path.read_bytes())
        data[world.rng.randrange(len(data))] ^= 1 << world.rng.randrange(8)
        path.write_bytes(data)


def write_junk(world):
    (world.agent.pods / f"junk{world.rng.randrange(5)}.yaml").write_bytes(world.rng.choice(JUNK))


def make_odd_file(world):
    """A link to itself, a FIFO, a device, a directory, a name that is no text."""
    path = world.agent.pods / f"odd{world.rng.randrange(5)}.json"
    with contextlib.suppress(FileExistsError):
        match world.rng.randrange(5):
            case 0:
                path.symlink_to(path.name)
            case 1:
                os.mkfifo(path)
            case 2:
                os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero: it never ends
            case 3:
                path.mkdir()
            case _:
                Path(os.fsdecode(os.fsencode(world.agent.pods) + b"/\xff\xfe.json")).write_text("{")


def _manifest(world):
    found = sorted(world.agent.pods.glob("h*.json"))
    return world.rng.choice(found) if found else None


# The API.


def create_pod(world):
    world.ask("POST", "/pods", content=json.dumps(pod(world)))


def delete_pod(world):
    found = world.pods()
    if found:
        world.ask("DELETE", f"/pods/{world.rng.choice(found)['metadata']['uid']}")


def post_junk(world):
    answer = world.ask("POST", "/pods", content=world.rng.choice(JUNK))
    assert answer is None or answer.status_code < 500 or answer.status_code == 503, answer.text


def hold_connections(world):
    """A client that opens many connections, asks for streams, and never reads."""
    for _ in range(world.rng.randrange(1, 200)):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(0.2)
        with contextlib.suppress(OSError):
            client.connect(str(world.agent.state / "agent.sock"))
            client.send(world.rng.choice([b"", b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n"]))
        world.held.append(client)


def release_connections(world):
    for connection in world.held:
        connection.close()
    world.held.clear()


# Signals.


def kill_agent(world):
    world.agent.kill()
    time.sleep(world.rng.random() * 0.3)
    _start(world)


def stop_agent(world):
    if world.agent.stop() != 0:
        raise AssertionError(f"SIGTERM ended the agent with {world.agent.process.returncode}")
    _start(world)


def turn_clock(world):
    """The wall clock jumps by up to a day, either way (where faketime can be fetched)."""
    world.agent.clock.write_text(f"{world.rng.randrange(-86_400, 86_400):+d}")


def pause_agent(world):
    world.agent.process.send_signal(signal.SIGSTOP)
    time.sleep(world.rng.random())
    world.agent.process.send_signal(signal.SIGCONT)


def kill_process(world):
    pid = _any_process(world)
    if pid is not None:
        with contextlib.suppress(OSError):
            os.kill(pid, world.rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))


def stop_process(world):
    pid = _any_process(world)
    if pid is not None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            world.stopped.append(pid)


def _start(world):
    """After a restart the disk may still be full: then it may refuse, in words, and come later."""
    _make_room(world)
    world.agent.start()


def _any_process(world):
    found = sorted(set(marked(world.agent.marker)) - {world.agent.process.pid})
    return world.rng.choice(found) if found else None


# The kernel and the disk.


def change_cgroup(world):
    parent = cgroup_parent(world.agent.state)
    files = {"cpuset.cpus": "0-1", "memory.limit_in_bytes": "-1", "cpu.shares": "77"}
    name = world.rng.choice(sorted(files))
    found = found_below(Path("/sys/fs/cgroup"), f"*/{parent}/**/{name}")
    if found:
        with contextlib.suppress(OSError):
            world.rng.choice(found).write_text(files[name])


def move_out_of_cgroup(world):
    pid = _any_process(world)
    if pid is not None:
        with contextlib.suppress(OSError):
            Path("/sys/fs/cgroup/cpuset/cgroup.procs").write_text(str(pid))


def fill_disk(world):
    with contextlib.suppress(OSError), (world.agent.state / "filler").open("ab") as file:
        while True:
            file.write(b"x" * 4096)
            file.flush()


def free_disk(world):
    _make_room(world)


def make_read_only(world):
    subprocess.run(
        ["mount", "-o", "remount,ro", str(world.agent.state)], capture_output=True, check=False
    )


def _make_room(world):
    subprocess.run(["mount", "-o", "remount,rw", str(world.agent.state)], check=True)
    (world.agent.state / "filler").unlink(missing_ok=True)


def remove_logs(world):
    for path in found_below(world.agent.state, "**/*.log"):
        with contextlib.suppress(OSError):
            path.unlink()


def start_plugin(world):
    """Another device plugin in the place of the one that is there, well-behaved or not."""
    world.start_plugin(world.rng.choice(MODES))


def kill_plugin(world):
    world.end_plugin()


def poke_plugin_sockets(world):
    """Garbage where the kubelet's plugins register."""
    for path in world.agent.state.glob("*/*.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(0.2)
            client.connect(str(path))
            client.send(os.urandom(200))


ACTIONS = {
    write_manifest: 8,
    change_manifest: 5,
    put_manifest_back: 3,
    remove_manifest: 5,
    rename_manifest: 3,
    damage_manifest: 2,
    write_junk: 3,
    make_odd_file: 2,
    create_pod: 8,
    delete_pod: 8,
    post_junk: 3,
    hold_connections: 2,
    release_connections: 2,
    kill_agent: 3,
    stop_agent: 2,
    pause_agent: 1,
    turn_clock: 2,
    kill_process: 4,
    stop_process: 2,
    change_cgroup: 3,
    move_out_of_cgroup: 2,
    fill_disk: 1,
    free_disk: 2,
    make_read_only: 1,
    remove_logs: 1,
    poke_plugin_sockets: 2,
    start_plugin: 4,
    kill_plugin: 2,
}
