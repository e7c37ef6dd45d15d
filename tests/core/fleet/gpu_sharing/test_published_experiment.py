"""The published experiment's check values, on its own lists, which are no part of the project."""

import csv
import gzip

import pytest
from tests.paths import SHARED

from numalign.core.fleet.gpu_sharing import experiment
from numalign.core.fleet.gpu_sharing.arrivals import Draws, arrivals, host_ranks
from numalign.core.fleet.gpu_sharing.fragments import Fragments, typical_pods
from numalign.core.fleet.gpu_sharing.hosts import HostShape, SharedHost, SharedPod
from numalign.core.fleet.gpu_sharing.policies import POLICIES
from numalign.wire.fleet.traces import openb

DATA = SHARED / "bench" / "simulator"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the published lists are not here")
CAPACITY = 6_212_000


@pytest.fixture(scope="module")
def pods():
    path = SHARED / "traces" / "openb_pod_list_default.csv"
    return openb.shared_pods("pods", path.read_text())


@pytest.fixture(scope="module")
def shapes():
    path = DATA / "traces" / "openb_node_list_gpu_node.csv"
    return openb.host_shapes("hosts", path.read_text())


def draws_of(seed):
    with gzip.open(DATA / "go_rand_u32.csv.gz", "rt") as file:
        rows = csv.DictReader(file)
        return Draws(iter([int(row[str(seed)]) for row in rows]))


def test_arrivals_and_ranks_are_those_of_the_original(pods, shapes):
    draws = draws_of(42)
    order = arrivals(pods, CAPACITY, draws)
    ranks = host_ranks(len(shapes), draws)
    assert order[:6] == [255, 1685, 6784, 4463, 602, 1564]
    assert order[8152:8156] == [3888, 5689, 2936, 788]
    assert (len(order), sum(pods[i].demand for i in order)) == (10_866, 8_075_080)
    assert ranks[:6] == [601, 815, 450, 13, 731, 1143]
    assert draws.count == 12_090


@pytest.mark.parametrize(
    ("cpu", "gpus", "expected"),
    [
        (96000, [1000] * 8, 1087.8187),
        (104000, [1000] * 2, 271.9547),
        (8000, [1000], 605.2022),
        (16000, [1000] * 2, 359.2583),
        (90000, [540] + [1000] * 7, 1391.9907),
        (4000, [300, 1000], 1007.9964),
        (0, [500], 500),
    ],
)
def test_fragments_are_those_of_the_original(pods, cpu, gpus, expected):
    mix = typical_pods(pods)
    assert len(mix) == 35
    assert Fragments(mix).of(cpu, gpus, "G2") == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("cpu", "milli", "gpus", "scores", "gpu"),
    [(6000, 460, 1, (42, 58), 0), (4000, 200, 1, (38, 54), 3),
     (12000, 1000, 1, (53, 53), None), (8000, 0, 0, (50, 50), None)],
)  # fmt: skip
def test_fgd_scores_as_the_original(pods, cpu, milli, gpus, scores, gpu):
    fragments = Fragments(typical_pods(pods))
    idle = SharedHost.idle(HostShape("a", 96_000, 1, 8, "G2"))
    busy = SharedHost(HostShape("b", 96_000, 1, 4, "G2"), 40_000, [540, 1000, 0, 220], {0, 1})
    wanted = SharedPod("p", cpu, 1, gpus, milli)
    policy = POLICIES["FGD"]
    assert tuple(policy.score(host, wanted, fragments) for host in (idle, busy)) == scores
    if gpu is not None:
        assert policy.pick(busy, wanted, fragments) == gpu


@pytest.mark.parametrize(
    ("policy", "refused", "used"),
    [("BestFit", 2676, 5_785_450), ("FGD", 2532, 5_919_410)],
)
def test_a_run_ends_as_that_of_the_original(pods, shapes, policy, refused, used):
    draws = draws_of(42)
    order = arrivals(pods, CAPACITY, draws)
    ranks = host_ranks(len(shapes), draws)
    found = experiment.run(shapes, pods, order, ranks, policy, lambda _: 0)
    assert (found.refused, found.gpu_milli_used) == (refused, used)
    if policy == "FGD":
        assert found.samples[-1].fragment_milli == pytest.approx(291_361.65, abs=0.01)
