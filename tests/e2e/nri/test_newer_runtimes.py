"""What newer runtimes can do beside: demand the plugin, memory policies, updates of our own."""

from pathlib import Path

import pytest
from tests.e2e.nri.plugin import NriPlugin, until, with_pods
from tests.real import crio

from numalign.core.errors import PeerError

pytestmark = pytest.mark.e2e

REQUIRED = {"required-plugins.noderesource.dev": '["10-numalign"]'}
TOLERATED = {**REQUIRED, "numalign.io/run-without-nri": "true"}


@pytest.fixture
def plugin(validated):
    with NriPlugin(validated.nri) as found:
        yield found


def has_memory_policies(runtime) -> bool:
    is_crio = runtime.version == crio.VERSION
    return not is_crio and tuple(map(int, runtime.version.split("."))) >= (2, 4)


def test_without_the_plugin_no_container_of_a_pod_that_needs_it_is_created(validated, plugin):
    async def work(pods):
        own = await pods.pod("own", annotations=REQUIRED)
        one = await pods.run(own, "db", 1000)
        assert pods.cpus(own, one) == "1"
        plugin.kill()
        other = await pods.pod("other", qos="burstable", annotations=REQUIRED)
        with pytest.raises(PeerError, match=r"required.*10-numalign"):
            await pods.run(other, "web", 100, limited=False)
        # Its own pods must be able to start, and pods that never needed it.
        first = await pods.pod("plugin", qos="burstable", annotations=TOLERATED)
        await pods.run(first, "nri", 100, limited=False)
        free = await pods.pod("free", qos="burstable")
        await pods.run(free, "web", 100, limited=False)
        plugin.start()
        two = await pods.run(other, "web", 100, limited=False)
        assert pods.cpus(other, two) == "0"
        assert pods.cpus(own, one) == "1"

    with_pods(validated, work)


def test_a_refusal_of_ours_is_told_as_it_is_without_a_validator(validated, plugin):
    async def work(pods):
        wrong = await pods.pod("wrong", annotations={**REQUIRED, "numalign.io/memory": "near"})
        with pytest.raises(PeerError, match=r"annotation numalign\.io/memory: found 'near'"):
            await pods.run(wrong, "db", 1000)

    with_pods(validated, work)


def policy_of(pods, sandbox, container):
    """The kernel's policy of the memory of a container's first process."""
    pid = pods.cgroup(sandbox, container, "cpuset", "cgroup.procs").split()[0]
    return Path(f"/proc/{pid}/numa_maps").read_text().split()[1]


@pytest.mark.parametrize(
    ("mode", "kernels"),
    [("bind", "bind:0"), ("preferred", "prefer:0"), ("interleave", "interleave:0")],
)
def test_memory_policies_are_the_kernels_where_the_runtime_sets_them(
    validated, plugin, mode, kernels
):
    async def work(pods):
        own = await pods.pod("own", annotations={"numalign.io/memory": mode})
        one = await pods.run(own, "db", 1000)
        assert pods.cpus(own, one) == "1"
        assert pods.cgroup(own, one, "cpuset", "cpuset.mems") == "0"
        # Those of NRI before 0.12 have cpuset.mems alone.
        expected = kernels if has_memory_policies(validated) else "default"
        found = policy_of(pods, own, one)
        # Some kernels tell of a preference for several nodes even where there is one.
        assert found.replace("prefer (many)", "prefer") == expected

    with_pods(validated, work)


def test_the_pool_grows_at_once_where_we_may_speak_first(validated, plugin):
    async def work(pods):
        shared = await pods.pod("shared", qos="burstable")
        one = await pods.run(shared, "web", 100, limited=False)
        own = await pods.pod("own")
        await pods.run(own, "db", 1000)
        assert pods.cpus(shared, one) == "0"
        await pods.end(own)
        if has_memory_policies(validated):
            until(lambda: pods.cpus(shared, one) != "0", "the pool to grow", 5)
        else:
            assert pods.cpus(shared, one) == "0"
            await pods.run(shared, "late", 100, limited=False)
        assert pods.cpus(shared, one) == "0-1"

    with_pods(validated, work)
