"""The tiles of a fleet: what they say, and that only what changed is worked out again."""

from dataclasses import replace

import pytest
from tests.cluster.fleet import FleetHost, HostPlan
from tests.core.cluster.scheduling.kubelets import a_pod

from numalign.apps.cluster_view.board import Board, asks_text, behind, look
from numalign.apps.scheduler.fit import state_of
from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.zones import FINGERPRINT_ATTRIBUTE, Attribute, HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.fleet.capacity import filled
from numalign.core.fleet.measures import ReferencePod
from numalign.wire.kubernetes.scheduling import ClusterPod

MIX = [
    ReferencePod("two", a_pod("two", (2, 1, 0)), 3),
    ReferencePod("six", a_pod("six", (6, 1, 0)), 1),
]
OFFER = {"cpu": 16_000, "memory": 64 << 30, "pods": 110}


def facts(name, **more):
    return HostFacts(name, {"node-pool": "edge"}, (), OFFER, **more)


def cluster(pods=(), waiting=(), names=("w1", "w2"), policy="single-numa-node"):
    """Hosts that have admitted some pods and published that."""
    hosts = [FleetHost(HostPlan(name, "1s:2n:8c:1t,mem=8Gi", policy)) for name in names]
    bound = []
    for host, size in pods:
        one = a_pod(f"p{len(bound)}", size)
        found = next(h for h in hosts if h.plan.name == host)
        assert found.admit(one) is None
        bound.append(ClusterPod(one, host=host, phase="Running"))
    numa = Fleet()
    topologies = [host.topology() for host in hosts]
    state = state_of(numa, [facts(name) for name in names], topologies, [*bound, *waiting])
    return numa, state


def seen(numa, state, **more):
    return look(state, numa.frame_and_state, **more)


def test_a_tile_says_what_is_free_by_node_and_how_many_more_fit():
    numa, state = cluster([("w1", (3, 1, 0))])
    board = Board(MIX)
    assert board.update(seen(numa, state))
    one, two = board.tiles["w1"], board.tiles["w2"]
    assert (one.pool, one.pods, one.exact, one.stale) == ("edge", 1, True, "")
    assert one.policy == "single-numa-node, container"
    assert sum(node.cpus[0] for node in two.nodes) - sum(node.cpus[0] for node in one.nodes) == 3
    for name in ("w1", "w2"):
        frame, host = numa.frame_and_state(name)
        for shape in MIX:
            assert board.tiles[name].fits[shape.name] == filled(frame, host, shape.pod).count
    total = {shape.name: shape.fits for shape in board.shapes()}
    assert total["two"] == one.fits["two"] + two.fits["two"]


def test_only_what_changed_has_a_new_version():
    numa, state = cluster([("w1", (3, 1, 0))])
    board = Board(MIX)
    board.update(seen(numa, state))
    assert not board.update(seen(numa, state)), "nothing changed"
    state.place(ClusterPod(a_pod("late", (2, 1, 0)), host="w2"), "w2")
    state.pods["late"] = ClusterPod(a_pod("late", (2, 1, 0)), host="w2")
    before = board.tiles["w1"]
    assert board.update(seen(numa, state))
    assert board.tiles["w1"] is before
    tiles, gone = board.since(1)
    assert ([tile.name for tile in tiles], gone) == (["w2"], [])
    assert "not publish yet" in board.tiles["w2"].stale


def test_a_host_that_went_is_told():
    numa, state = cluster()
    board = Board()
    board.update(seen(numa, state))
    found = seen(numa, state)
    assert board.update(replace(found, hosts=found.hosts[1:]))
    assert board.since(1) == ([], ["w1"])
    board.update(found)
    tiles, gone = board.since(2)
    assert ([tile.name for tile in tiles], gone) == (["w1"], [])


def test_a_host_that_publishes_nothing_says_what_to_do():
    numa = Fleet()
    state = state_of(
        numa, [facts("w1", is_ready=False), facts("w2", is_unschedulable=True)], [], []
    )
    board = Board()
    board.update(seen(numa, state, refused={"w1": 2}))
    assert "numalign export" in board.tiles["w1"].stale
    assert (board.tiles["w1"].unready, board.tiles["w2"].unready) == ("NotReady", "Cordoned")
    assert (board.tiles["w1"].refused, board.tiles["w1"].exact) == (2, False)


def test_stranded_resources_are_said_with_their_node():
    numa, state = cluster([("w1", (7, 1, 0))], names=("w1",))
    board = Board()
    board.update(seen(numa, state))
    [text] = board.tiles["w1"].stranded
    assert text.startswith("NUMA node ")
    assert text.endswith("beside 0 free CPUs")


def test_pods_that_wait_say_why():
    big = ClusterPod(a_pod("big", (12, 1, 0)))
    told = ClusterPod(a_pod("told", (1, 1, 0)), unschedulable="0/2 hosts")
    gated = ClusterPod(a_pod("gated", (1, 1, 0)), is_gated=True)
    fits = ClusterPod(a_pod("fits", (1, 1, 0)))
    numa, state = cluster(waiting=[big, told, gated, fits])
    found = {pod.name: pod for pod in seen(numa, state, searches=True).pending}
    assert "2" in found["big"].why
    assert "CPU" in found["big"].why
    assert found["told"].why == "0/2 hosts"
    assert found["gated"].why == "waits at a scheduling gate"
    assert found["fits"].why.startswith("would fit on w")
    assert found["big"].asks == "12 CPUs, 1 GiB"
    assert seen(numa, state).pending[0].why == "", "nobody looks for a host unasked"


def test_a_host_whose_fingerprint_is_of_other_pods_is_stale():
    own = Attribute(FINGERPRINT_ATTRIBUTE, fingerprint([("ns", "a")]))
    topology = HostTopology("w1", attributes=(own,))
    assert behind(topology, [("ns", "a")]) == ""
    assert "fingerprint" in behind(topology, [("ns", "b")])


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((2, 3, 0), "2 CPUs, 3 GiB"),
        (("1500m", 1, 0), "1500m CPU, 1 GiB"),
        ((1, 1, 2), "1 CPU, 1 GiB, 2"),
    ],
)
def test_what_a_pod_asks_for_is_short(size, text):
    assert asks_text(a_pod("p", size)).startswith(text)


def test_shapes_are_counted_when_there_is_time():
    numa, state = cluster([("w1", (3, 1, 0))])
    board, times = Board(MIX), iter([True, False])
    assert board.update(seen(numa, state), lambda: next(times))
    assert board.is_partial
    assert (bool(board.tiles["w1"].fits), bool(board.tiles["w2"].fits)) == (True, False)
    before = board.tiles["w1"]
    assert board.update(seen(numa, state))
    assert not board.is_partial
    assert board.tiles["w1"] is before
    assert board.tiles["w2"].fits
    assert [tile.name for tile in board.since(1)[0]] == ["w2"]
