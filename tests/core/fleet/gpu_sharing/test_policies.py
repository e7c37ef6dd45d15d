import pytest

from numalign.core.fleet.gpu_sharing.fragments import Fragments, TypicalPod, typical_pods
from numalign.core.fleet.gpu_sharing.hosts import HostShape, SharedHost, SharedPod
from numalign.core.fleet.gpu_sharing.policies import POLICIES

NO_FRAGMENTS = Fragments(())


def idle():
    return SharedHost.idle(HostShape("a", 96_000, 1, 8, "G2"))


def busy():
    """Two pods share GPUs here and one has a whole GPU."""
    return SharedHost(HostShape("b", 96_000, 1, 4, "G2"), 40_000, [540, 1000, 0, 220], {0, 1})


def pod(cpu, milli, gpus=1, models=""):
    return SharedPod("p", cpu, 1, gpus, milli, models)


# The published experiment's worked examples.
@pytest.mark.parametrize(
    ("wanted", "policy", "on_idle", "on_busy"),
    [
        (pod(6000, 460), "DotProd", 95, 98),
        (pod(6000, 460), "GpuClustering", 25, 69),
        (pod(6000, 460), "GpuPacking", 25, 95),
        (pod(6000, 460), "BestFit", 17, 78),
        (pod(4000, 200), "DotProd", 97, 99),
        (pod(4000, 200), "GpuPacking", 25, 98),
        (pod(4000, 200), "BestFit", 15, 76),
        (pod(12000, 1000), "DotProd", 90, 97),
        (pod(12000, 1000), "GpuClustering", 25, 69),
        (pod(12000, 1000), "GpuPacking", 25, 49),
        (pod(12000, 1000), "BestFit", 23, 84),
        (pod(8000, 0, 0), "DotProd", 97, 99),
        (pod(8000, 0, 0), "GpuClustering", 0, 0),
        (pod(8000, 0, 0), "GpuPacking", 0, 0),
        (pod(8000, 0, 0), "BestFit", 15, 76),
    ],
)
def test_a_host_scores_as_in_the_published_examples(wanted, policy, on_idle, on_busy):
    found = [POLICIES[policy].score(host, wanted, NO_FRAGMENTS) for host in (idle(), busy())]
    assert found == [on_idle, on_busy]


def test_the_tightest_gpu_is_picked():
    assert POLICIES["BestFit"].pick(busy(), pod(6000, 460), NO_FRAGMENTS) == 0
    assert POLICIES["BestFit"].pick(busy(), pod(4000, 200), NO_FRAGMENTS) == 3


MIX = (TypicalPod(4000, 500, 1, "", 0.5), TypicalPod(8000, 1000, 2, "", 0.25),
       TypicalPod(1000, 0, 0, "", 0.25))  # fmt: skip


def test_what_is_left_is_a_fragment_to_those_who_cannot_use_it():
    # 500 milli: 300 is useless; two GPUs: only one is free, so all of it; no GPU: all of it.
    found = Fragments(MIX).of(8000, [300, 1000], "G2")
    assert found == pytest.approx(0.5 * 300 + 0.25 * 1300 + 0.25 * 1300)


def test_without_cpu_all_gpus_are_fragments():
    assert Fragments(MIX).of(3999, [1000, 1000], "G2") == pytest.approx(2000)


def test_a_gpu_of_another_model_is_a_fragment():
    mix = (TypicalPod(0, 500, 1, "T4|V100", 1.0),)
    assert Fragments(mix).of(8000, [1000], "G2") == pytest.approx(1000)
    assert Fragments(mix).of(8000, [1000], "T4") == 0


def test_fgd_picks_the_gpu_whose_rest_stays_useful():
    # Half of a free GPU leaves a half that the typical pod can use; 600 leaves 100 that it cannot.
    mix = Fragments((TypicalPod(0, 500, 1, "", 1.0),))
    host = SharedHost(HostShape("a", 10_000, 1, 2, ""), 10_000, [600, 1000])
    assert POLICIES["FGD"].pick(host, pod(0, 500), mix) == 1


def test_equal_changes_score_fifty():
    host = SharedHost(HostShape("a", 10_000, 1, 1, ""), 10_000, [1000])
    mix = Fragments((TypicalPod(0, 500, 1, "", 1.0),))
    assert POLICIES["FGD"].score(host, pod(1000, 0, 0), mix) == 50


def test_the_most_frequent_classes_are_typical_until_95_per_cent_are_covered():
    pods = [pod(1000, 500)] * 90 + [pod(2000, 500)] * 5 + [pod(3000, 500)] * 5
    found = typical_pods(pods)
    assert [m.cpu_milli for m in found] == [1000, 3000]
    assert [m.share for m in found] == pytest.approx([90 / 95, 5 / 95])
