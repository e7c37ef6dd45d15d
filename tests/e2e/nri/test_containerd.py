"""The plugin inside real containerds: cgroups are read, nothing is believed."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap

import pytest
import yaml
from tests.e2e.nri.plugin import MIB, NriPlugin, until, with_pods

from numalign.adapters.grpc import podresources_client
from numalign.adapters.grpc.podresources import PodResources
from numalign.core.errors import PeerError
from numalign.core.views.podresources import Allocatable, View

pytestmark = pytest.mark.e2e

EVERY = f"0-{(os.cpu_count() or 1) - 1}"


def test_a_guaranteed_container_gets_its_own_cpu_and_the_others_leave_it(runtime, plugin):
    async def work(pods):
        shared = await pods.pod("shared", qos="burstable")
        one = await pods.run(shared, "web", 100, limited=False)
        assert pods.cpus(shared, one) == EVERY
        own = await pods.pod("own")
        two = await pods.run(own, "db", 1000)
        assert pods.cpus(own, two) == "1"
        assert pods.cpus(shared, one) == "0"
        three = await pods.run(shared, "late", 100, limited=False)
        assert pods.cpus(shared, three) == "0"
        await pods.end(own)
        # Growth waits for the next answer.
        four = await pods.run(shared, "later", 100, limited=False)
        assert pods.cpus(shared, four) == EVERY
        assert pods.cpus(shared, one) == EVERY

    with_pods(runtime, work)


def test_what_does_not_fit_is_refused_with_a_sentence_and_fits_when_another_leaves(runtime, plugin):
    async def work(pods):
        first = await pods.pod("first")
        await pods.run(first, "db", 1000)
        second = await pods.pod("second")
        with pytest.raises(PeerError) as refused:
            await pods.run(second, "db", 1000)
        text = str(refused.value)
        assert "numalign: UnexpectedAdmissionError: container db of default/second" in text
        assert "free CPUs by NUMA node 0: 0" in text
        await pods.end(first)
        two = await pods.run(second, "db", 1000)
        assert pods.cpus(second, two) == "1"

    with_pods(runtime, work)


def test_a_restarted_container_keeps_its_cpus_and_a_plugin_killed_meanwhile_too(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        await pods.client.stop(one, 0)
        other = await pods.pod("other")
        with pytest.raises(PeerError):
            await pods.run(other, "thief", 1000)
        plugin.kill()
        plugin.start()
        with pytest.raises(PeerError):
            await pods.run(other, "thief", 1000)
        again = await pods.run(own, "db", 1000)
        assert pods.cpus(own, again) == "1"

    with_pods(runtime, work)


@pytest.mark.parametrize("fate", ["lost", "damaged"])
def test_without_its_state_file_it_takes_over_what_runs(runtime, plugin, fate):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        plugin.kill()
        file = plugin.state / "nri_state"
        if fate == "lost":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes().replace(b'"1"', b'"0"'))
        plugin.start()
        assert pods.cpus(own, one) == "1"
        assert "how=adopted" in plugin.said()
        assert ("state_damaged" in plugin.said()) == (fate == "damaged")
        other = await pods.pod("other")
        with pytest.raises(PeerError):
            await pods.run(other, "thief", 1000)

    with_pods(runtime, work)


def test_containers_created_while_it_was_away_are_repaired(runtime, plugin):
    async def work(pods):
        plugin.kill()
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        shared = await pods.pod("shared", qos="burstable")
        two = await pods.run(shared, "web", 100, limited=False)
        assert pods.cpus(own, one) == EVERY
        plugin.start()
        until(lambda: pods.cpus(own, one) == "1", "the container to be pinned")
        until(lambda: pods.cpus(shared, two) == "0", "the other one to leave")

    with_pods(runtime, work)


def test_a_shared_container_is_resized_in_its_pool_and_an_exclusive_one_is_not(runtime, plugin):
    async def work(pods):
        shared = await pods.pod("shared", qos="burstable")
        one = await pods.run(shared, "web", 100)
        own = await pods.pod("own")
        two = await pods.run(own, "db", 1000)
        await pods.resize(one, 300, 128 * MIB)
        assert pods.cpus(shared, one) == "0"
        assert pods.cgroup(shared, one, "cpu", "cpu.shares") == "307"
        assert pods.cgroup(shared, one, "memory", "memory.limit_in_bytes") == str(128 * MIB)
        with pytest.raises(PeerError, match="ExclusiveNotResizable"):
            await pods.resize(two, 2000)
        assert pods.cpus(own, two) == "1"

    with_pods(runtime, work)


def test_a_mixed_pod_has_exclusive_and_shared_containers_by_annotation(runtime, plugin):
    async def work(pods):
        mixed = await pods.pod(
            "mixed", qos="burstable", annotations={"numalign.io/exclusive": "db"}
        )
        db = await pods.run(mixed, "db", 1000)
        log = await pods.run(mixed, "log", 100, limited=False)
        assert pods.cpus(mixed, db) == "1"
        assert pods.cpus(mixed, log) == "0"
        wrong = await pods.pod("wrong", annotations={"numalign.io/polici": "restricted"})
        with pytest.raises(PeerError, match=r"annotation numalign\.io/polici: unknown"):
            await pods.run(wrong, "db", 1000)

    with_pods(runtime, work)


def test_a_new_host_file_applies_to_new_pods_and_moves_nobody(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        text = plugin.config.read_text().replace('"0"', '"1"')
        plugin.config.write_text(text)
        until(lambda: "host_file_waits" in plugin.said(), "the file to be read")
        assert pods.cpus(own, one) == "1"
        await pods.end(own)
        until(lambda: "host_file_applied" in plugin.said(), "the file to be applied")
        again = await pods.pod("again")
        two = await pods.run(again, "db", 1000)
        assert pods.cpus(again, two) == "0"

    with_pods(runtime, work)


def test_it_comes_back_when_the_runtime_was_killed(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        before = plugin.count("synchronized")
        runtime.end(signal.SIGKILL)
        runtime.start()
        plugin.until_synchronized(before)
        assert pods.cpus(own, one) == "1"
        other = await pods.pod("other")
        with pytest.raises(PeerError, match=r"free CPUs by NUMA node 0: 0"):
            await pods.run(other, "thief", 1000)

    with_pods(runtime, work)


def test_podresources_shows_what_is_held(runtime, plugin):
    async def work(pods):
        own = await pods.pod("own")
        await pods.run(own, "db", 1000)
        view = await podresources_client.read(plugin.state / "pod-resources.sock")
        (pod,) = [one for one in view.pods if one.name == "own"]
        assert [(c.name, c.cpus) for c in pod.apps] == [("db", (1,))]
        assert view.allocatable.cpus == (1,)
        until((plugin.state / "cpu_manager_state").exists, "the kubelet's file")
        until(
            lambda: (
                json.loads((plugin.state / "cpu_manager_state").read_text())["defaultCpuSet"] == "0"
            ),
            "the kubelet's file to tell it",
        )

    with_pods(runtime, work)


def test_the_exporter_publishes_a_host_under_the_plugin(runtime, plugin):
    command = [
        *(sys.executable, "-m", "numalign", "export", "--oneshot", "--no-publish"),
        *("--pod-resources", str(plugin.state / "pod-resources.sock")),
        *("--state", str(plugin.state), "--kubelet-config", str(plugin.config)),
    ]

    async def work(pods):
        own = await pods.pod("own")
        await pods.run(own, "db", 1000)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found = yaml.safe_load(done.stdout)
        (zone,) = found["zones"]
        (cpu,) = [one for one in zone["resources"] if one["name"] == "cpu"]
        assert (cpu["allocatable"], cpu["available"]) == ("1", "0")

    with_pods(runtime, work)


def test_the_runtime_can_start_it_itself(runtime):
    async def work(pods):
        own = await pods.pod("own")
        one = await pods.run(own, "db", 1000)
        assert pods.cpus(own, one) == "1"

    with NriPlugin(runtime.nri) as config:
        config.kill()
        plugins, texts = runtime.directory / "nri-plugins", runtime.directory / "nri-conf"
        plugins.mkdir(exist_ok=True)
        texts.mkdir(exist_ok=True)
        words = shlex.join(config.command()[1:])
        script = plugins / "10-numalign"
        script.write_text(f"#!/bin/sh\nexec {sys.executable} {words} 2>{config.log}\n")
        script.chmod(0o755)
        (texts / "10-numalign.conf").write_text(config.config.read_text())
        try:
            runtime.end()
            runtime.start()
            until(lambda: config.count("synchronized"), "the plugin that the runtime starts")
            with_pods(runtime, work)
        except AssertionError as error:
            raise AssertionError(config.said() + runtime.said()[-6000:]) from error
        finally:
            script.unlink()
            runtime.end()
            runtime.start()


def test_it_does_not_start_beside_static_managers(runtime, plugin):
    plugin.kill()
    (plugin.kubelet / "config.yaml").write_text("cpuManagerPolicy: static\n")
    done = subprocess.run(plugin.command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "found cpuManagerPolicy: static. Set cpuManagerPolicy: none" in done.stderr
    (plugin.kubelet / "config.yaml").write_text("cpuManagerPolicy: none\n")
    (plugin.kubelet / "cpu_manager_state").write_text(
        textwrap.dedent('{"policyName":"static","defaultCpuSet":"0-1","checksum":1}')
    )
    done = subprocess.run(plugin.command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "found the state of policy static" in done.stderr


def test_it_does_not_start_beside_a_kubelet_whose_flags_say_static(runtime, plugin):
    plugin.kill()
    server = PodResources(
        plugin.kubelet / "pod-resources/kubelet.sock", lambda: View((), Allocatable((0, 1)))
    )

    async def work():
        await server.start()
        try:
            return await asyncio.to_thread(
                subprocess.run, plugin.command(), capture_output=True, text=True, timeout=60
            )
        finally:
            await server.stop()

    done = asyncio.run(work())
    assert done.returncode == 2
    assert "the kubelet runs with cpuManagerPolicy: static. Set" in done.stderr
