"""Faults with a real containerd: killed under load, many at once, a silent kubelet."""

import asyncio
import random
import signal
import socket

import pytest
from tests.e2e.nri.plugin import NriPlugin, until, with_pods

from numalign.adapters.grpc import podresources_client
from numalign.core.errors import PeerError
from numalign.core.values.sets import parse_list

pytestmark = pytest.mark.e2e

KILLS = 50


def overlaps(pods, containers, owners):
    """Containers that are on a CPU which another one has for itself."""
    found = {}
    for sandbox, one in containers:
        found[sandbox, one] = parse_list(pods.cpus(sandbox, one))
    return [(key, found[key]) for key in found if key not in owners and found[key] & 0b10]


def test_killed_fifty_times_under_load_it_gives_nothing_twice_and_loses_nothing(runtime, plugin):
    async def work(pods):
        rng = random.Random(17)
        running: dict[str, list[str]] = {}
        is_over = False

        async def load():
            number = 0
            while not is_over:
                number += 1
                if len(running) > 5:
                    gone = rng.choice(list(running))
                    del running[gone]
                    await pods.end(gone)
                    del pods.specs[gone]
                exclusive = rng.random() < 0.4
                sandbox = await pods.pod(f"p{number}", qos="" if exclusive else "burstable")
                running[sandbox] = []
                try:
                    milli = 1000 if exclusive else 100
                    running[sandbox].append(await pods.run(sandbox, "c", milli, limited=exclusive))
                except PeerError as error:
                    # Refused, or the plugin died in the middle of the answer.
                    assert "numalign:" in str(error) or "ttrpc" in str(error), error

        loading = asyncio.create_task(load())
        for _ in range(KILLS):
            before = plugin.count("synchronized")
            await asyncio.to_thread(plugin.kill)
            await asyncio.to_thread(plugin.start, wait=False)
            if rng.random() < 0.7:  # others are killed while they start
                await asyncio.to_thread(plugin.until_synchronized, before)
            await asyncio.sleep(rng.random() * 0.3)
        is_over = True
        await loading
        before = plugin.count("synchronized")
        plugin.kill()
        plugin.start()
        assert "Traceback" not in plugin.said()
        view = await podresources_client.read(plugin.state / "pod-resources.sock")
        holders = {pod.name for pod in view.pods for c in pod.apps if c.cpus}
        assert len(holders) <= 1, "there is one CPU to give"
        names = {sandbox: pods.specs[sandbox].name for sandbox in running}
        containers = [(sandbox, one) for sandbox, ones in running.items() for one in ones]
        owners = {key for key in containers if names[key[0]] in holders}
        try:
            until(lambda: not overlaps(pods, containers, owners), "cgroups and state to agree", 10)
        except AssertionError as error:
            wrong = overlaps(pods, containers, owners)
            said = plugin.said()[-3000:]
            raise AssertionError(f"{wrong} {holders} {names} {said}") from error
        for sandbox, one in owners:
            assert pods.cpus(sandbox, one) == "1"

    with_pods(runtime, work)


def test_two_hundred_containers_at_once_are_all_moved_for_one_that_wants_its_own(runtime, plugin):
    async def work(pods):
        sandboxes = [await pods.pod(f"p{number}", qos="burstable") for number in range(10)]
        created = await asyncio.gather(
            *(
                pods.create(sandbox, f"c{number}", 10, limited=False)
                for sandbox in sandboxes
                for number in range(20)
            )
        )
        assert len(set(created)) == 200
        started = created[::10]
        for one in started:
            await pods.client.start(one)
        own = await pods.pod("own")
        db = await pods.run(own, "db", 1000)
        assert pods.cpus(own, db) == "1"
        for number, one in enumerate(created):
            if one in started:
                sandbox = sandboxes[number // 20]
                assert pods.cpus(sandbox, one) == "0"
        # And one that is started only now.
        await pods.client.start(created[1])
        assert pods.cpus(sandboxes[0], created[1]) == "0"

    with_pods(runtime, work)


def test_a_kubelet_that_does_not_answer_costs_half_a_second_and_no_container(runtime):
    silent = NriPlugin(runtime.nri)
    place = silent.kubelet / "pod-resources"
    place.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "kubelet.sock"))
        server.listen(50)

        async def work(pods):
            own = await pods.pod("own")
            one = await pods.run(own, "db", 1000)
            assert pods.cpus(own, one) == "1"
            assert "devices_unknown" in silent.said()

        with silent:
            with_pods(runtime, work)


def cpus_of(pods, found):
    """The CPUs of containers that are there, by sandbox and container."""
    return {key: parse_list(pods.cpus(*key)) for key in found if pods.is_there(*key)}


def test_a_plugin_that_stands_still_is_left_and_puts_it_right_when_it_goes_on(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        shared = await pods.pod("shared", qos="burstable")
        before = plugin.count("synchronized")
        plugin.process.send_signal(signal.SIGSTOP)
        try:
            # Two seconds for each answer, and then without us.
            two = await pods.run(shared, "web", 100, limited=False)
        finally:
            plugin.process.send_signal(signal.SIGCONT)
        plugin.until_synchronized(before)
        until(lambda: pods.cpus(shared, two) == "0", "the one that came meanwhile to leave")
        assert pods.cpus(own, one) == "1"
        other = await pods.pod("other")
        with pytest.raises(PeerError, match=r"free CPUs by NUMA node 0: 0"):
            await pods.run(other, "thief", 1000)
        assert "Traceback" not in plugin.said()

    with_pods(runtime, work)


def test_a_runtime_killed_in_the_middle_of_creations_gives_nothing_twice(runtime, plugin):
    async def work(pods):
        rng = random.Random(17)
        for number in range(5):
            own = await pods.pod(f"own{number}")
            shared = await pods.pod(f"shared{number}", qos="burstable")
            before = plugin.count("synchronized")
            creating = [
                asyncio.create_task(pods.run(own, "db", 1000)),
                *(
                    asyncio.create_task(pods.run(shared, f"c{one}", 100, limited=False))
                    for one in range(4)
                ),
            ]
            await asyncio.sleep(rng.random() * 0.4)
            runtime.end(signal.SIGKILL)
            created = await asyncio.gather(*creating, return_exceptions=True)
            runtime.start()
            plugin.until_synchronized(before)
            # What was created is there, or not; who has the CPU for himself is alone on it.
            found = [(own if at == 0 else shared, one) for at, one in enumerate(created)]
            there = [key for key in found if isinstance(key[1], str)]

            def is_right(there=there, own=own):
                found = cpus_of(pods, there)
                mine = [cpus for key, cpus in found.items() if key[0] == own]
                others = [cpus for key, cpus in found.items() if key[0] != own]
                return all(cpus == 0b10 for cpus in mine) and not (
                    mine and any(cpus & 0b10 for cpus in others)
                )

            until(is_right, f"cgroups to agree: {plugin.said()[-2000:]}", 15)
            # The kubelet goes on with the same pod: its container gets its CPU, now or at last.
            db = await pods.run(own, "db", 1000)
            assert pods.cpus(own, db) == "1"
            await pods.end(own)
            await pods.end(shared)
            del pods.specs[own], pods.specs[shared]
        assert "Traceback" not in plugin.said()

    with_pods(runtime, work)


def test_a_socket_that_vanishes_ends_nothing_and_comes_back_with_the_runtime(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        runtime.nri.unlink()
        # The connection that there is goes on; a plugin that is started now waits.
        shared = await pods.pod("shared", qos="burstable")
        two = await pods.run(shared, "web", 100, limited=False)
        assert pods.cpus(shared, two) == "0"
        plugin.kill()
        plugin.start(wait=False)
        until(lambda: "cannot connect to the runtime" in plugin.said(), "it to say so")
        assert plugin.process.poll() is None
        before = plugin.count("synchronized")
        runtime.end()
        runtime.start()
        plugin.until_synchronized(before)
        assert (pods.cpus(own, one), pods.cpus(shared, two)) == ("1", "0")

    with_pods(runtime, work)
