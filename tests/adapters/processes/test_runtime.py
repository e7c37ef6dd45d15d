"""Real processes below real supervisors; in real cgroups where this host lets us have them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from tests.adapters.cgroups.own_cgroups import FIRST, HOST_CPUS, LAST, NODE, real_tree
from tests.apps.agent.processes import is_alive
from tests.paths import SOURCES

from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement, container_group
from numalign.adapters.processes import proc_table
from numalign.adapters.processes.runtime import (
    DriftKind,
    Exited,
    Expected,
    ProcessRuntime,
    Running,
    RunSpec,
)
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


async def ended(state: Path) -> None:
    """Ends what a test left running, also one that failed."""
    runtime = ProcessRuntime(state, None)
    for one in await runtime.adopt():
        await runtime.stop(one.pod_uid, one.container, grace_seconds=0)


@contextmanager
def places(tmp_path: Path, kind: str) -> Iterator[Callable[[], ProcessRuntime]]:
    """Makes runtimes over the same state and groups, as an agent and its successors would."""
    if kind == "affinity":
        yield lambda: ProcessRuntime(tmp_path / "state", None)
        asyncio.run(ended(tmp_path / "state"))
        return
    with real_tree() as tree:
        yield lambda: ProcessRuntime(tmp_path / "state", tree)


@pytest.fixture(params=["cgroups", "affinity"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], ProcessRuntime]]:
    with places(tmp_path, request.param) as make:
        yield make


@pytest.fixture
def in_cgroups(tmp_path: Path) -> Iterator[Callable[[], ProcessRuntime]]:
    with places(tmp_path, "cgroups") as make:
        yield make


def spec(tmp_path: Path, *argv: str, name: str = "main", **more: object) -> RunSpec:
    settings: dict[str, object] = {
        "pod_uid": "1234",
        "container": name,
        "argv": argv,
        "env": {"PATH": os.environ["PATH"]},
        "cwd": str(tmp_path),
        "log_path": tmp_path / f"{name}.log",
        "cpus": LAST,
        "mems": NODE,
        **more,
    }
    return RunSpec(**settings)


def logged(tmp_path: Path, name: str = "main") -> list[str]:
    return (tmp_path / f"{name}.log").read_text().splitlines()


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, 90)

    asyncio.run(bounded())


async def until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.005)


async def next_exit(runtime: ProcessRuntime) -> Exited:
    return await anext(aiter(runtime.exits()))


def test_a_container_runs_where_it_should_and_its_exit_code_is_told(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        script = "pwd; echo $X; grep Cpus_allowed_list /proc/self/status; read x; exit 7"
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        command = ("sh", "-c", f"{script.replace('read x', f'read x < {gate}')}")
        running = await runtime.start(spec(tmp_path, *command, env={"X": "a b"}))
        assert isinstance(running, Running)
        observed = runtime.observed("1234", "main")
        assert running.pid in observed.pids
        assert (observed.cpus, observed.mems) == (LAST, NODE)
        assert os.getsid(running.pid) == running.pid
        await asyncio.to_thread(gate.write_text, "go\n")
        exited = await next_exit(runtime)
        assert (exited.code, exited.signal, exited.message) == (7, 0, "")
        assert exited.started_ns < exited.finished_ns
        assert not exited.oom_killed
        texts = [line.split(" ", 3)[1:] for line in logged(tmp_path)]
        assert texts == [
            ["stdout", "F", str(tmp_path)],
            ["stdout", "F", "a b"],
            ["stdout", "F", f"Cpus_allowed_list:\t{LAST}"],
        ]
        runtime.remove("1234", "main")
        assert list((tmp_path / "state/runs").iterdir()) == []

    run(work())


def test_a_command_that_is_not_there_ends_with_127_and_a_clear_message(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        (tmp_path / "plain").write_text("no program\n")
        script = tmp_path / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        cases = [
            ("no-such-command", 127, "no-such-command: command not found"),
            (str(tmp_path / "plain"), 126, "Permission denied"),
            (str(script), 127, "the interpreter or loader that it names is not"),
        ]
        for attempt, (command, code, text) in enumerate(cases):
            exited = await runtime.start(spec(tmp_path, command, attempt=attempt))
            assert isinstance(exited, Exited)
            assert (exited.code, exited.attempt) == (code, attempt)
            assert text in exited.message
        exited = await runtime.start(spec(tmp_path, "true", cwd="/no/such/place", attempt=9))
        assert isinstance(exited, Exited)
        assert exited.code == 125
        assert "enter the working directory /no/such/place" in exited.message

    run(work())


def test_a_polite_container_ends_by_sigterm_within_its_grace(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
        await runtime.start(spec(tmp_path, "sh", "-c", script))
        await until(lambda: logged(tmp_path))
        exited = await runtime.stop("1234", "main", grace_seconds=10)
        assert exited is not None
        assert exited.code == 3
        assert [line.split(" ", 3)[3] for line in logged(tmp_path)] == ["ready", "bye"]
        assert await next_exit(runtime) == exited
        assert await runtime.stop("1234", "main", grace_seconds=10) is None

    run(work())


def test_a_stubborn_container_and_its_offspring_are_killed_after_the_grace(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        # One that ignores the request, and one that has left its session and its parent.
        script = "trap '' TERM; (setsid sleep 300 &); echo ready; while :; do sleep 0.01; done"
        running = await runtime.start(spec(tmp_path, "sh", "-c", script))
        assert isinstance(running, Running)
        await until(lambda: logged(tmp_path))
        pids = runtime.observed("1234", "main").pids
        assert len(pids) >= 2
        started = time.monotonic()
        exited = await runtime.stop("1234", "main", grace_seconds=0.2)
        assert exited is not None
        assert (exited.code, exited.signal) == (137, 9)
        assert time.monotonic() - started >= 0.2
        assert not any(is_alive(pid) for pid in pids)
        runtime.remove("1234", "main")

    run(work())


def test_what_the_first_process_leaves_behind_ends_with_it(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        await runtime.start(spec(tmp_path, "sh", "-c", "setsid sleep 300 & echo $!; exit 0"))
        exited = await next_exit(runtime)
        assert exited.code == 0
        left = int(logged(tmp_path)[0].split()[-1])
        assert not is_alive(left)
        runtime.remove("1234", "main")

    run(work())


def test_a_container_moves_with_all_its_threads(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    program = (
        "import threading,time,os\n"
        "for _ in range(3): threading.Thread(target=time.sleep,args=(60,),daemon=True).start()\n"
        "os.fork(); print('ready',flush=True); time.sleep(60)"
    )

    async def work() -> None:
        runtime = again()
        await runtime.start(spec(tmp_path, sys.executable, "-c", program, cpus=HOST_CPUS))
        await until(lambda: len(logged(tmp_path)) == 2)
        expected = Expected(pod_uid="1234", container="main", cpus=FIRST, mems=NODE)
        for cpus in (FIRST, LAST, FIRST):
            runtime.pin("1234", "main", cpus, NODE)
            assert runtime.observed("1234", "main").cpus == cpus
        assert runtime.drift([expected]) == []
        with pytest.raises(PeerError):
            runtime.pin("1234", "main", CpuSet.of([60_000]), NODE)
        await runtime.stop("1234", "main", grace_seconds=0)

    run(work())


OWNER = """
import asyncio, os, sys
from pathlib import Path
from numalign.adapters.cgroups.tree import CgroupTree
from numalign.adapters.processes.runtime import ProcessRuntime, RunSpec
from numalign.core.values.sets import CpuSet

async def own(state, parent, log, *argv):
    tree = None
    if parent:
        mounts = Path("/proc/self/mountinfo").read_text()
        tree = CgroupTree.detect(Path("/sys/fs/cgroup"), mounts, parent)
    runtime = ProcessRuntime(Path(state), tree)
    cpus = CpuSet.of(os.sched_getaffinity(0)) if parent == "" else CpuSet.parse(os.environ["CPUS"])
    for name in ("main", "side"):
        spec = RunSpec(pod_uid="1234", container=name, argv=argv, cpus=cpus,
                       log_path=Path(f"{log}.{name}"), cwd=str(Path(log).parent),
                       env={"PATH": "/usr/bin:/bin", "NAME": name})
        print((await runtime.start(spec)).pid, flush=True)
    print(runtime.notes, flush=True)
    await asyncio.sleep(60)

asyncio.run(own(*sys.argv[1:]))
"""


def owner(
    runtime: ProcessRuntime, tmp_path: Path, *argv: str, prefix: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[str], list[int]]:
    parent = str(runtime.cgroups.parent) if runtime.cgroups else ""
    command = [sys.executable, "-c", OWNER, str(runtime.root), parent, str(tmp_path / "log"), *argv]
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "CPUS": str(HOST_CPUS)}
    process = subprocess.Popen(
        [*prefix, *command], stdout=subprocess.PIPE, text=True, env=env, start_new_session=True
    )
    assert process.stdout is not None
    return process, [int(process.stdout.readline()) for _ in range(2)]


def test_containers_outlive_a_killed_owner_and_are_adopted_with_their_exit_codes(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    gates = {name: tmp_path / f"gate.{name}" for name in ("main", "side")}
    for gate in gates.values():
        os.mkfifo(gate)

    async def work() -> None:
        runtime = again()
        process, pids = owner(runtime, tmp_path, "sh", "-c", "read x < gate.$NAME; exit $x")
        process.kill()
        process.wait()
        process.stdout.close()
        # One ends while nobody looks, the other after it was found again.
        await asyncio.to_thread(gates["main"].write_text, "5\n")
        await until(lambda: list(runtime.root.glob("runs/*/main.0/exit.json")))
        found = sorted(await runtime.adopt(), key=lambda one: type(one).__name__)
        assert [type(one) for one in found] == [Exited, Running]
        assert isinstance(found[0], Exited)
        assert found[0].code == 5
        assert isinstance(found[1], Running)
        assert found[1].pid in pids
        assert await runtime.adopt() == [found[0]]
        await asyncio.to_thread(gates["side"].write_text, "6\n")
        exited = await next_exit(runtime)
        assert (exited.container, exited.code) == ("side", 6)
        for name in ("main", "side"):
            runtime.remove("1234", name)
        assert await runtime.adopt() == []

    run(work())


def test_an_adopted_container_is_stopped_and_pinned_like_any_other(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        process, _ = owner(runtime, tmp_path, "sleep", "300")
        process.kill()
        process.wait()
        process.stdout.close()
        assert len(await runtime.adopt()) == 2
        runtime.pin_all(
            {("1234", "main"): CpusetPlacement(FIRST), ("1234", "side"): CpusetPlacement(LAST)}
        )
        assert runtime.observed("1234", "main").cpus == FIRST
        assert runtime.observed("1234", "side").cpus == LAST
        for name in ("main", "side"):
            exited = await runtime.stop("1234", name, grace_seconds=10)
            assert exited is not None
            assert (exited.code, exited.signal) == (143, 15)

    run(work())


def test_a_process_with_a_recycled_number_is_neither_adopted_nor_killed(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        await runtime.start(spec(tmp_path, "true"))
        await next_exit(runtime)
        (directory,) = (tmp_path / "state/runs/1234").iterdir()
        (directory / "exit.json").unlink()
        # The kernel tells start times in ticks of 10 ms, and a number comes back only after all
        # others were given: a stranger that starts in the tick of the container cannot be.
        await asyncio.sleep(2 / os.sysconf("SC_CLK_TCK"))
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
            # As if the supervisor had been killed, and its number given to somebody else.
            old = json.loads((directory / "run.json").read_text())
            new = {**old, "supervisor": stranger.pid, "child": stranger.pid}
            (directory / "run.json").write_text(json.dumps(new))
            successor = again()
            (found,) = await successor.adopt()
            assert isinstance(found, Exited)
            assert (found.code, stranger.poll()) == (255, None)
            assert "supervisor was killed" in found.message
            stranger.kill()

    run(work())


def test_the_container_of_a_killed_supervisor_ends_and_is_told(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        running = await runtime.start(spec(tmp_path, "sleep", "300"))
        assert isinstance(running, Running)
        os.kill(running.supervisor_pid, signal.SIGKILL)
        exited = await next_exit(runtime)
        assert exited.code == 255
        assert "supervisor was killed" in exited.message
        assert proc_table.process(running.pid) is None

    run(work())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this host does not let us mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_costs_log_lines_and_new_starts_but_no_exit_code(
    small_disk: Path, tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = ProcessRuntime(small_disk / "state", None)
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        log = small_disk / "log"
        script = f"read x < {gate}; seq 20000; exit $x"
        await runtime.start(spec(tmp_path, "sh", "-c", script, log_path=log))
        with suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        await asyncio.to_thread(gate.write_text, "6\n")
        assert (await next_exit(runtime)).code == 6
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(PeerError, match=r"No space left on device.*Nothing was started"):
            await runtime.start(spec(tmp_path, "true", name="next", log_path=log))
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before
        assert runtime.containers_of("1234") == ["main"]
        (small_disk / "fill").unlink()
        assert isinstance(
            await runtime.start(spec(tmp_path, "true", name="next", log_path=log)), Running
        )
        assert (await next_exit(runtime)).code == 0

    run(work())


@pytest.mark.parametrize("name", ["record.json", "run.json", "exit.json"])
def test_a_damaged_record_is_told_and_does_not_stop_the_others(
    again: Callable[[], ProcessRuntime], tmp_path: Path, name: str
) -> None:
    async def work() -> None:
        runtime = again()
        for container in ("good", "damaged"):
            await runtime.start(spec(tmp_path, "true", name=container))
            await next_exit(runtime)
        (tmp_path / "state/runs/1234/damaged.0" / name).write_text('{"code":')
        successor = again()
        found = {one.container: one for one in await successor.adopt()}
        assert found["good"].code == 0
        if name == "exit.json":
            assert found["damaged"].code == 255
            assert "exit.json: cannot be read" in found["damaged"].message
        else:
            assert "damaged" not in found
            assert name in successor.faults[0]
        if successor.cgroups is not None:
            left = successor.cgroups.children("pod1234")
            assert "c-damaged" not in left

    run(work())


def test_a_new_attempt_replaces_the_last_one(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        for attempt in range(3):
            await runtime.start(spec(tmp_path, "sh", "-c", f"exit {attempt}", attempt=attempt))
            assert (await next_exit(runtime)).code == attempt
        with pytest.raises(PeerError, match="made before"):
            await runtime.start(spec(tmp_path, "true", attempt=2))
        (found,) = await again().adopt()
        assert (found.attempt, len(list((tmp_path / "state/runs/1234").iterdir()))) == (2, 1)
        assert runtime.containers_of("1234") == ["main"]

    run(work())


def test_a_container_runs_once_at_a_time(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = again()
        await runtime.start(spec(tmp_path, "sleep", "300"))
        with pytest.raises(PeerError, match="runs already"):
            await runtime.start(spec(tmp_path, "sleep", "300", attempt=1))
        assert runtime.running() == {("1234", "main")}
        with pytest.raises(PeerError, match="still runs"):
            runtime.remove("1234", "main")
        await runtime.stop("1234", "main", grace_seconds=0)

    run(work())


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ()},
        {"argv": ("a\0b",)},
        {"env": {"A=B": "x"}},
        {"cpus": CpuSet()},
        {"log_path": Path("relative")},
    ],
)
def test_a_run_that_cannot_be_meant_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        spec(tmp_path, **{"argv": ("true",), **wrong})


# What only cgroups can do.


def groups(runtime: ProcessRuntime) -> CgroupTree:
    assert runtime.cgroups is not None
    return runtime.cgroups


def test_limits_of_container_and_pod_are_in_their_groups(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        limits = Limits(cpu_shares=512, cpu_quota_us=50_000, memory_bytes_max=64 * 2**20)
        pod = Limits(cpu_shares=512, cpu_quota_us=50_000, memory_bytes_max=64 * 2**20)
        more = {"limits": limits, "pod_limits": pod, "qos": Qos.BURSTABLE}
        await runtime.start(spec(tmp_path, "sleep", "300", **more))
        group = container_group(Qos.BURSTABLE, "1234", "main")
        assert groups(runtime).differences(group, limits, CpusetPlacement(LAST, NODE)) == []
        assert groups(runtime).differences("burstable/pod1234", pod, CpusetPlacement()) == []
        await runtime.limit_qos(Qos.BURSTABLE, Limits(cpu_shares=512))
        assert (
            groups(runtime).differences("burstable", Limits(cpu_shares=512), CpusetPlacement())
            == []
        )
        await runtime.stop("1234", "main", grace_seconds=0)
        runtime.remove("1234", "main")
        assert not groups(runtime).exists("burstable/pod1234")

    run(work())


def test_a_start_that_the_kernel_refuses_leaves_nothing_behind(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        with pytest.raises(PeerError, match="60000"):
            await runtime.start(spec(tmp_path, "true", cpus=CpuSet.of([60_000])))
        assert groups(runtime).children() == {"supervisors"}
        with pytest.raises(PeerError, match=r"supervisor of container main failed: .*Error"):
            await runtime.start(spec(tmp_path, "true", log_path=tmp_path))
        assert groups(runtime).children() == {"supervisors"}
        assert runtime.containers_of("1234") == []
        assert isinstance(await runtime.start(spec(tmp_path, "true")), Running)
        assert (await next_exit(runtime)).code == 0

    run(work())


def test_a_container_that_takes_too_much_memory_is_told_as_such(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        if any("memory" in note for note in runtime.notes):
            pytest.skip("this host has no memory controller")
        program = "x = bytearray(200 * 2**20)"
        limits = Limits(memory_bytes_max=32 * 2**20)
        await runtime.start(spec(tmp_path, sys.executable, "-c", program, limits=limits))
        exited = await next_exit(runtime)
        assert (exited.signal, exited.oom_killed) == (9, True)

    run(work())


def test_drift_is_found_and_repaired(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        limits = Limits(cpu_shares=512)
        await runtime.start(
            spec(tmp_path, "sh", "-c", "sleep 300 & sleep 300", limits=limits, cpus=FIRST)
        )
        await until(lambda: len(runtime.observed("1234", "main").pids) == 3)
        expected = [
            Expected(pod_uid="1234", container="main", cpus=FIRST, mems=NODE, limits=limits)
        ]
        assert runtime.drift(expected) == []
        tree = groups(runtime)
        group = container_group(Qos.GUARANTEED, "1234", "main")
        escapee = max(runtime.observed("1234", "main").pids)
        tree.make("elsewhere")
        tree.add("elsewhere", escapee)
        tree.place({group: CpusetPlacement(cpus=HOST_CPUS)})
        tree.limit(group, Limits(cpu_shares=1024))
        found = runtime.drift(expected)
        kinds = {one.kind for one in found}
        assert {DriftKind.VALUE, DriftKind.ESCAPED} <= kinds
        assert [one.pid for one in found if one.kind is DriftKind.ESCAPED] == [escapee]
        assert runtime.repair(expected) == found
        assert runtime.drift(expected) == []
        assert escapee in runtime.observed("1234", "main").pids
        await runtime.stop("1234", "main", grace_seconds=0)

    run(work())


def test_groups_without_a_record_are_removed_when_containers_are_found_again(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        await runtime.start(spec(tmp_path, "sleep", "300"))
        tree = groups(runtime)
        lost = container_group(Qos.BURSTABLE, "99", "lost")
        for group in (lost, container_group(Qos.GUARANTEED, "1234", "lost")):
            tree.make(group)
        tree.place({lost: CpusetPlacement(LAST, NODE)})
        with subprocess.Popen(["sleep", "60"]) as stray:
            tree.add(lost, stray.pid)
            await in_cgroups().adopt()
            assert stray.wait(60) == -9
        assert tree.children("pod1234") == {"c-main"}
        assert tree.children("burstable") == set()
        await runtime.stop("1234", "main", grace_seconds=0)

    run(work())


def test_supervisors_are_kept_apart_from_containers(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        running = await runtime.start(spec(tmp_path, "sleep", "300"))
        assert isinstance(running, Running)
        assert running.supervisor_pid in groups(runtime).pids("supervisors")
        assert running.supervisor_pid not in runtime.observed("1234", "main").pids
        await runtime.pin_supervisors(FIRST)
        assert os.sched_getaffinity(running.supervisor_pid) == set(FIRST)
        await runtime.stop("1234", "main", grace_seconds=0)

    run(work())


@pytest.mark.skipif(len(HOST_CPUS) < 2, reason="needs two CPUs")
def test_the_affinity_of_the_agent_does_not_narrow_its_containers(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        prefix = ("taskset", "-c", str(FIRST))
        process, _ = owner(runtime, tmp_path, "sleep", "300", prefix=prefix)
        process.kill()
        process.wait()
        process.stdout.close()
        await runtime.adopt()
        assert runtime.observed("1234", "main").cpus == HOST_CPUS
        for name in ("main", "side"):
            await runtime.stop("1234", name, grace_seconds=0)

    run(work())


# What works without root.


NOBODY = 65534


def for_nobody(env: dict[str, str]) -> str:
    """A Python that an ordinary user can run with our sources and what they need."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import numalign.adapters.processes.runtime"]
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(command, env=env, user=NOBODY, capture_output=True, check=True)
            return python
    pytest.skip("no Python and sources here that an ordinary user can read")


def test_a_user_without_root_gets_affinity_and_is_told_so() -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    packages = Path(msgspec.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{SOURCES}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"}
    python = for_nobody(env)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.chown(place, NOBODY, NOBODY)
        command = [python, "-c", OWNER, str(place / "state"), "", str(place / "log")]
        process = subprocess.Popen(
            [*command, "sleep", "300"], stdout=subprocess.PIPE, text=True, env=env, user=NOBODY
        )
        try:
            assert process.stdout is not None
            pids = [int(process.stdout.readline()) for _ in range(2)]
            assert "affinity" in process.stdout.readline()
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {NOBODY}
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            asyncio.run(until(lambda: len(list(place.glob("state/runs/*/*/exit.json"))) == 2))
        finally:
            process.kill()
            process.communicate()


def test_memory_is_bound_by_policy_where_there_are_no_cgroups(tmp_path: Path) -> None:
    async def work() -> None:
        runtime = ProcessRuntime(tmp_path / "state", None)
        running = await runtime.start(spec(tmp_path, "sleep", "300"))
        assert isinstance(running, Running)
        first = Path(f"/proc/{running.pid}/numa_maps").read_text().split()[1]
        assert first == f"bind:{NODE}"
        assert runtime.observed("1234", "main").mems == NODE
        with pytest.raises(PeerError, match="Restart the container"):
            runtime.pin("1234", "main", LAST, NodeSet.of([700]))
        await runtime.stop("1234", "main", grace_seconds=0)
        exited = await runtime.start(spec(tmp_path, "true", name="far", mems=NodeSet.of([700])))
        assert isinstance(exited, Exited)
        assert exited.code == 125
        assert "take memory from NUMA nodes 700" in exited.message

    run(work())


def test_a_widened_affinity_is_seen_as_drift_and_repaired(tmp_path: Path) -> None:
    async def work() -> None:
        runtime = ProcessRuntime(tmp_path / "state", None)
        running = await runtime.start(spec(tmp_path, "sleep", "300", cpus=FIRST))
        assert isinstance(running, Running)
        expected = [Expected(pod_uid="1234", container="main", cpus=FIRST)]
        assert runtime.drift(expected) == []
        os.sched_setaffinity(running.pid, set(LAST))
        (found,) = runtime.repair(expected)
        assert (found.kind, found.pid, found.found) == (
            DriftKind.AFFINITY,
            running.pid,
            str(LAST),
        )
        assert runtime.drift(expected) == []
        await runtime.stop("1234", "main", grace_seconds=0)

    if len(HOST_CPUS) < 2:
        pytest.skip("needs two CPUs")
    run(work())


# Killed at any moment.


def marked(mark: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


START_UNTIL_KILLED = """
import asyncio, json, os, sys
from pathlib import Path
from numalign.adapters.cgroups.tree import CgroupTree
from numalign.adapters.processes.runtime import ProcessRuntime, RunSpec
from numalign.core.values.sets import CpuSet

async def work(state, parent, folder, mark, first):
    mounts = Path("/proc/self/mountinfo").read_text()
    tree = CgroupTree.detect(Path("/sys/fs/cgroup"), mounts, parent) if parent else None
    runtime = ProcessRuntime(Path(state), tree)
    print("ready", flush=True)
    for number in range(int(first), int(first) + 100):
        await runtime.start(RunSpec(
            pod_uid="1234", container=f"c{number}", argv=("sleep", "300"), env={"MARK": mark},
            cwd=folder, log_path=Path(folder) / "log", cpus=CpuSet.of(os.sched_getaffinity(0))))

asyncio.run(work(*sys.argv[1:]))
"""


def start_and_kill(runtime: ProcessRuntime, folder: Path, mark: str, first: int, wait: float):
    """Starts one container after the other, and kills the process that does so after a while.

    A program of its own: a fork of this process would take locks and threads of others along.
    """
    parent = str(runtime.cgroups.parent) if runtime.cgroups else ""
    command = [sys.executable, "-c", START_UNTIL_KILLED, str(runtime.root), parent, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen([*command, mark, str(first)], stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(wait)
        finally:
            process.kill()


def test_a_directory_made_just_before_a_crash_is_removed(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    again()
    (tmp_path / "state/runs/1234").mkdir(parents=True)
    assert asyncio.run(again().adopt()) == []
    assert list((tmp_path / "state/runs").iterdir()) == []


def test_a_container_that_has_yet_to_join_its_group_is_ended_with_it(
    in_cgroups: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    async def work() -> None:
        runtime = in_cgroups()
        running = await runtime.start(spec(tmp_path, "sleep", "1000"))
        tree = groups(runtime)
        tree.make("elsewhere")
        tree.add("elsewhere", running.pid)
        exited = await runtime.stop("1234", "main", grace_seconds=0)
        assert exited.signal == signal.SIGKILL
        runtime.remove("1234", "main")
        tree.remove("elsewhere")

    run(work())


def test_no_process_is_lost_however_early_its_owner_is_killed(
    again: Callable[[], ProcessRuntime], tmp_path: Path
) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    rng = random.Random(5)
    seen = set()

    async def adopted_all() -> None:
        runtime = again()
        found = await runtime.adopt()
        running = {one.pid for one in found if isinstance(one, Running)}
        await until(lambda: marked(mark) <= running)
        for one in found:
            seen.add(type(one))
            await runtime.stop(one.pod_uid, one.container, grace_seconds=0)
            runtime.remove(one.pod_uid, one.container)
        assert marked(mark) == set()
        assert list((tmp_path / "state/runs").iterdir()) == []
        if runtime.cgroups is not None:
            assert runtime.cgroups.children() == {"supervisors"}

    for turn in range(8):
        start_and_kill(again(), tmp_path, mark, turn * 100, rng.uniform(0.0, 0.12))
        asyncio.run(adopted_all())
    assert Running in seen
