"""Which host a pod gets: the common rules, exact answers, reservations, and the words."""

from dataclasses import replace
from random import Random

import pytest
from tests.core import hosts
from tests.core.cluster.scheduling.kubelets import Kubelet, a_kubelet, a_pod, placement_of

from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.publish.zones import Attribute, HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.cluster.scheduling.fragmentation import Packing, score
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.cluster.scheduling.refusals import UNCONFIRMED, Refusal, summary
from numalign.core.kubelet import host
from numalign.core.pod import Container, Pod, Qos
from numalign.core.values.sets import ids_of


def anywhere(_name):
    return True


def kubelet(name="w0", policy="restricted", *, nodes=2, scope="container", **options):
    """Nodes with 4 CPUs each; CPU 0 is reserved."""
    info = hosts.machine(nodes, 4, 1)
    return Kubelet(
        name, host.build(hosts.settings(policy, scope=scope, memory=False), info), {}, **options
    )


def cluster_of(*kubelets, **options):
    cluster = Fleet(**options)
    for one in kubelets:
        cluster.host_changed(one.facts())
        published(cluster, one)
    return cluster


def published(cluster, one):
    one.publish()
    cluster.topology_changed(one.published[-1])


def placed(cluster, pod):
    name = cluster.choose(pod, anywhere)
    if name is not None:
        cluster.pod_placed(name, pod)
    return name


@pytest.mark.parametrize("seed", range(30))
def test_a_host_is_rebuilt_as_it_is(seed):
    rng = Random(seed)
    one = a_kubelet(rng, "w0")
    for number in range(6):
        sizes = (rng.randrange(1, 4), rng.randrange(1, 4), 0)
        init = [sizes] if rng.random() < 0.3 else []
        one.inbox.append(("came", a_pod(f"p{number}", sizes, init=init)))
    one.work(10)
    one.end("p0")
    one.state = host.cleaned(one.built, one.state)
    placement = placement_of(one.built, one.state, one.found)
    found = rebuilt(placement, one.state.pods.values())
    assert found.confirmed == one.state.pods.keys()
    state = found.state
    assert (state.cpu.shared, state.cpu.entries) == (one.state.cpu.shared, one.state.cpu.entries)
    assert state.memory.machine == one.state.memory.machine
    assert state.memory.entries == one.state.memory.entries
    assert state.devices.in_use == {
        name: ids for name, ids in one.state.devices.in_use.items() if ids
    }
    assert state.pods == one.state.pods


def test_hosts_with_the_same_machine_share_their_managers():
    one, two = kubelet("a"), kubelet("b")
    found = [rebuilt(placement_of(k.built, k.state, {}), []) for k in (one, two)]
    assert found[0].frame is found[1].frame


def test_a_pod_that_is_listed_without_its_cpus_is_not_confirmed():
    one = kubelet()
    pod = a_pod("p", (2, 1, 0))
    listed = replace(one.state, pods={"p": pod})
    found = rebuilt(placement_of(one.built, listed, {}), [pod])
    assert found.confirmed == frozenset()
    assert not found.state.pods


def test_a_placement_that_makes_no_sense_is_not_used():
    one = kubelet()
    placement = placement_of(one.built, one.state, {})
    broken = replace(placement, settings=replace(placement.settings, topology_policy="strict"))
    assert rebuilt(broken, []) is None


def test_restricted_hosts_are_asked_exactly_where_the_common_rules_pass_them():
    pod = a_pod("p", (4, 1, 0))
    full = kubelet()  # node 0 has 3 CPUs left, node 1 has 4
    assert cluster_of(full).choose(pod, anywhere) == "w0"
    full.inbox.append(("came", a_pod("other", (2, 1, 0))))
    full.inbox.append(("came", a_pod("third", (2, 1, 0))))
    full.work(2)
    assert cluster_of(full).choose(pod, anywhere) is None
    assert cluster_of(full, is_exact=False).choose(pod, anywhere) == "w0"


def test_a_pod_that_was_placed_counts_before_the_host_publishes_it():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    names = [placed(cluster, a_pod(f"p{i}", (3, 1, 0))) for i in range(3)]
    assert names == ["w0", "w0", None]
    cluster.pod_gone("w0", "p0")
    cluster.pod_gone("w0", "p1")
    assert placed(cluster, a_pod("p3", (3, 1, 0))) == "w0"


def test_a_pod_of_somebody_else_counts_too():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    for i in range(2):
        cluster.pod_placed("w0", a_pod(f"f{i}", (3, 1, 0)))
    assert cluster.choose(a_pod("p", (3, 1, 0)), anywhere) is None


def test_what_the_host_publishes_takes_the_place_of_the_reservation():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    pod = a_pod("p", (3, 1, 0))
    assert placed(cluster, pod) == "w0"
    one.inbox.append(("came", pod))
    one.work(1)
    published(cluster, one)
    (state,) = cluster.states("w0")
    assert state.cpu.entries == one.state.cpu.entries
    assert placed(cluster, a_pod("q", (3, 1, 0))) == "w0"
    assert cluster.choose(a_pod("r", (3, 1, 0)), anywhere) is None


def test_a_host_with_much_that_is_not_published_is_asked_after_the_others():
    fleet = {f"w{i}": kubelet(f"w{i}") for i in range(9)}
    cluster = cluster_of(*fleet.values(), strategy=Strategy.MOST_ALLOCATED)
    pods = [a_pod(f"p{i}", (1, memory, 0)) for i, memory in enumerate((1, 2, 1))]
    first = placed(cluster, pods[0])
    # One node of all hosts is equally empty, and among equals the first one is taken.
    assert placed(cluster, pods[1]) == first
    assert cluster.choose(pods[2], anywhere) != first
    fleet[first].inbox += [("came", pod) for pod in pods[:2]]
    fleet[first].work(2)
    published(cluster, fleet[first])
    anew = cluster_of(*fleet.values(), strategy=Strategy.MOST_ALLOCATED)
    for pod in pods[:2]:
        anew.pod_placed(first, pod)
    for cpus in (1, 2, 3, 4):
        pod = a_pod("next", (cpus, 1, 0))
        assert cluster.choose(pod, anywhere) == anew.choose(pod, anywhere)


def test_where_all_hosts_have_much_that_is_not_published_they_are_asked_all_the_same():
    cluster = cluster_of(kubelet(), strategy=Strategy.MOST_ALLOCATED)
    pods = [a_pod(f"p{i}", (cpus, 1, 0)) for i, cpus in enumerate((1, 2, 3))]
    assert [placed(cluster, pod) for pod in pods] == ["w0"] * 3


def test_a_patient_scheduler_waits_until_the_last_pod_is_published():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one, waits_for_publication=True)
    assert placed(cluster, a_pod("a", (2, 1, 0))) == "w0"
    assert cluster.refusal(a_pod("b", (4, 1, 0)), "w0") == Refusal(UNCONFIRMED)
    one.inbox.append(("came", a_pod("a", (2, 1, 0))))
    one.work(1)
    published(cluster, one)
    assert placed(cluster, a_pod("b", (4, 1, 0))) == "w0"


def test_a_pod_is_not_placed_where_another_one_would_pay_for_it():
    # 3 and 4 CPUs are free. The large pod is on its way to node 1. A small one would go to node
    # 0 after it, but before it as well, so it is safe; one of 2 CPUs and 2 of 1 are not, since
    # in another order the third of them lands on node 1.
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    assert placed(cluster, a_pod("large", (4, 1, 0))) == "w0"
    assert placed(cluster, a_pod("small", (2, 1, 0))) == "w0"
    assert cluster.refusal(a_pod("next", (2, 1, 0)), "w0") is not None
    assert placed(cluster, a_pod("tiny", (1, 1, 0))) == "w0"


def held(state, uid):
    """The CPUs of a pod with one container."""
    return sorted(ids_of(state.cpu.entries.get(uid, {}).get("c0", 0)))


def running(one, cluster, *pods):
    """These pods run on the host, and it has published them."""
    for pod in pods:
        cluster.pod_placed(one.name, pod)
        one.inbox.append(("came", pod))
        one.work(1)
    published(cluster, one)


def test_what_a_host_published_long_ago_brings_no_pod_back():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    pod = a_pod("p", (4, 1, 0))
    cluster.pod_placed("w0", pod)
    one.inbox.append(("came", pod))
    one.work(1)
    one.publish()
    cluster.pod_gone("w0", "p")
    before, late = one.published
    cluster.topology_changed(before)  # it had not come yet
    cluster.topology_changed(late)
    (state,) = cluster.states("w0")
    assert "p" not in state.pods
    assert placed(cluster, a_pod("q", (4, 1, 0))) == "w0"


def test_a_pod_that_went_before_it_was_published_stays_in_mind_while_others_are_on_their_way():
    # The first may have come and gone before or after the second was admitted, or never have come.
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    running(one, cluster, a_pod("x", (1, 1, 0)))
    assert placed(cluster, a_pod("first", (2, 1, 0))) == "w0"
    assert placed(cluster, a_pod("second", (1, 1, 0), (1, 1, 0))) == "w0"
    cluster.pod_gone("w0", "first")
    assert {tuple(held(state, "second")) for state in cluster.states("w0")} == {(2,), (4,)}
    cluster.pod_gone("w0", "x")
    assert {tuple(held(state, "second")) for state in cluster.states("w0")} >= {(1,), (2,), (4,)}


def test_a_pod_that_went_before_another_was_bound_is_gone_when_that_one_comes():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    running(one, cluster, a_pod("x", (4, 1, 0)))
    cluster.pod_gone("w0", "x")
    assert placed(cluster, a_pod("p", (4, 1, 0))) == "w0"
    cluster.topology_changed(one.published[-1])  # with x still in it
    (state,) = cluster.states("w0")
    assert held(state, "p") == [4, 5, 6, 7]


def test_a_pod_may_go_between_two_that_come():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    running(one, cluster, a_pod("x", (2, 1, 0)))
    assert placed(cluster, a_pod("a", (2, 1, 0))) == "w0"
    assert placed(cluster, a_pod("b", (1, 1, 0))) == "w0"
    cluster.pod_gone("w0", "x")
    found = {(tuple(held(s, "a")), tuple(held(s, "b"))) for s in cluster.states("w0")}
    together, apart, between = ((1, 2), (3,)), ((4, 5), (3,)), ((4, 5), (1,))
    assert {together, apart, between} <= found


def test_after_a_list_a_host_with_pods_that_it_has_not_published_has_to_publish_first():
    # Another pod may have come and gone before it unheard of, so it may be on either node.
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    running(one, cluster, a_pod("x", (1, 1, 0)))
    cluster.changes_missed()
    assert len(cluster.states("w0")) == 1
    assert placed(cluster, a_pod("p", (2, 1, 0))) == "w0"
    cluster.changes_missed()
    assert cluster.refusal(a_pod("q", (2, 1, 0)), "w0") == Refusal(UNCONFIRMED)
    cluster.pod_gone("w0", "x")
    assert cluster.refusal(a_pod("q", (2, 1, 0)), "w0") == Refusal(UNCONFIRMED)
    one.inbox.append(("came", a_pod("p", (2, 1, 0))))
    one.work(1)
    published(cluster, one)
    assert placed(cluster, a_pod("q", (2, 1, 0))) == "w0"


def test_after_a_list_pods_that_nobody_has_bound_yet_are_in_no_doubt():
    cluster = cluster_of(kubelet(policy="single-numa-node"))
    assert placed(cluster, a_pod("p", (2, 1, 0))) == "w0"
    cluster.changes_missed({"p"})
    assert cluster.refusal(a_pod("q", (2, 1, 0)), "w0") is None


def test_a_host_that_might_refuse_the_pod_if_another_ended_comes_after_those_that_would_not():
    # Node 0 of the used host is full. If x ended, the init container would go there, and the app
    # with it, for which there are too few CPUs.
    used, empty = (kubelet(name, "single-numa-node") for name in ("used", "empty"))
    for pod in (a_pod("x", (2, 1, 0)), a_pod("y", (1, 1, 0))):
        used.inbox.append(("came", pod))
    used.work(2)
    pod = a_pod("p", (3, 1, 0), init=[(1, 1, 0)])
    cluster = cluster_of(used, empty)
    for other in used.state.pods.values():
        cluster.pod_placed("used", other)
    plain = cluster.scores(a_pod("q", (3, 1, 0)), ["used", "empty"])
    assert min(plain.values()) >= 50
    found = cluster.scores(pod, ["used", "empty"])
    assert found["used"] < 50 <= found["empty"]
    assert cluster.choose(pod, lambda name: name == "used") == "used"
    cluster.pod_gone("used", "x")
    assert cluster.choose(pod, lambda name: name == "used") is None


def test_pods_that_own_nothing_never_wait():
    one = kubelet()
    cluster = cluster_of(one, waits_for_publication=True)
    assert placed(cluster, a_pod("a", (2, 1, 0))) == "w0"
    assert cluster.choose(Pod("b", "b", "default", containers=(Container("c"),)), anywhere) == "w0"


def test_a_host_without_a_placement_is_reserved_on_every_node_until_its_fingerprint_tells():
    one = kubelet(policy="single-numa-node", with_placement=False, nodes=1)
    cluster = cluster_of(one)
    pod = a_pod("p", (2, 1, 0))
    assert placed(cluster, pod) is None  # no zone lists memory
    slim = Pod("p", "p", "default", containers=(Container("c", *[hosts.resources(cpu=2)] * 2),))
    slim = replace(slim, qos=Qos.GUARANTEED)
    assert placed(cluster, slim) == "w0"
    other = replace(slim, uid="q", name="q")
    assert cluster.choose(other, anywhere) is None
    published(cluster, one)  # taken before the pod came
    assert cluster.choose(other, anywhere) is None
    cluster.pod_gone("w0", "p")
    assert cluster.choose(other, anywhere) == "w0"


def test_hosts_that_are_gone_or_publish_nothing_are_handled():
    one = kubelet()
    cluster = cluster_of(one)
    cluster.topology_gone("w0")
    assert cluster.choose(a_pod("p", (100, 1, 0)), anywhere) == "w0"  # nothing is known against it
    cluster.host_gone("w0")
    assert cluster.choose(a_pod("p", (1, 1, 0)), anywhere) is None
    assert cluster.refusal(a_pod("p", (1, 1, 0)), "w0") is None
    cluster.host_changed(HostFacts("w1"))
    cluster.topology_changed(
        HostTopology("w1", attributes=(Attribute("topologyManagerPolicy", "single-numa-node"),))
    )
    assert cluster.choose(a_pod("p", (1, 1, 0)), anywhere) is None


def test_a_host_that_splits_the_pod_comes_last():
    split, whole = (kubelet(name, "best-effort", nodes=3) for name in "ab")
    for number, cpus in enumerate((2, 2, 3)):  # leaves 1, 2 and 1
        split.inbox.append(("came", a_pod(f"x{number}", (cpus, 1, 0))))
    split.work(3)
    cluster = cluster_of(split, whole)
    pod = a_pod("p", (4, 1, 0))
    assert cluster.choose(pod, anywhere) == "b"
    assert cluster.choose(pod, lambda name: name == "a") == "a"


class Thorough(Fleet):
    """Looks at some hosts more, though none of them can be better."""

    def _score_max(self, _evaluation):
        return None


@pytest.mark.parametrize("seed", range(20))
def test_who_stops_at_the_best_host_finds_the_one_that_looking_on_would_find(seed):
    rng = Random(seed)
    kubelets = {name: a_kubelet(rng, name) for name in ("w0", "w1", "w2", "w3", "w4")}
    quick, thorough = Fleet(is_exact=rng.random() < 0.8), Thorough()
    thorough._is_exact = quick._is_exact
    for one in kubelets.values():
        one.publish()
        for cluster in (quick, thorough):
            cluster.host_changed(one.facts())
            cluster.topology_changed(one.published[-1])
    for number in range(30):
        sizes = [(rng.randrange(1, 5), rng.randrange(1, 4), 0) for _ in range(rng.choice((1, 2)))]
        pod = a_pod(f"p{number}", *sizes)
        name = quick.choose(pod, anywhere)
        assert name == thorough.choose(pod, anywhere)
        if name is not None:
            one = kubelets[name]
            one.inbox.append(("came", pod))
            one.work(10)
            one.publish()
            for cluster in (quick, thorough):
                cluster.pod_placed(name, pod)
                cluster.topology_changed(one.published[-1])


def test_packing_keeps_whole_nodes_whole():
    used, empty = kubelet("used"), kubelet("empty")
    used.inbox.append(("came", a_pod("x", (2, 1, 0))))
    used.work(1)
    pod = a_pod("p", (1, 1, 0))
    assert cluster_of(empty, used, pack=Packing.KEEP_WHOLE).choose(pod, anywhere) == "used"
    assert cluster_of(used, empty, pack=Packing.SPREAD).choose(pod, anywhere) == "empty"
    assert score(Packing.KEEP_WHOLE, [4, 16], [0, 16]) == 100
    assert score(Packing.KEEP_WHOLE, [4, 16], [4, 12]) < 20
    assert score(Packing.SPREAD, [4, 16], [0, 16]) == 0


def test_victims_make_room():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    for i in range(2):
        assert placed(cluster, a_pod(f"p{i}", (3, 1, 0))) == "w0"
    pod = a_pod("p", (3, 1, 0))
    assert not cluster.fits_without(pod, "w0", [])
    assert cluster.fits_without(pod, "w0", ["p0"])


def test_refusals_name_the_amounts_and_tell_hopeless_ones():
    one = kubelet(policy="single-numa-node")
    cluster = cluster_of(one)
    refused = cluster.refusal(a_pod("p", (6, 1, 0)), "w0")
    assert refused.text == "too few CPUs in one NUMA node (has 4 of 6 free)"
    assert refused.is_hopeless
    assert placed(cluster, a_pod("q", (4, 1, 0))) == "w0"
    refused = cluster.refusal(a_pod("p", (4, 1, 0)), "w0")
    assert refused.text == "too few CPUs in all NUMA nodes (has 3 of 4 free)"
    assert not refused.is_hopeless


def test_one_sentence_says_why_no_host_fits():
    few = "too few CPUs in one NUMA node"
    found = [
        *(Refusal(few, resource="cpu", wanted=8_000, found=n) for n in (2_000, 6_000, 5_500)),
        Refusal("not ready"),
        Refusal("not ready"),
        Refusal("too little memory in one NUMA node", resource="memory", wanted=2**31, found=2**30),
    ]
    assert summary(6, found) == (
        "of 6 hosts: 3 too few CPUs in one NUMA node (best has 6 of 8 free), 2 not ready, "
        "1 too little memory in one NUMA node (has 1Gi of 2Gi free)"
    )
    assert summary(0, []) == "there are no hosts"


@pytest.mark.parametrize("strategy", Strategy)
def test_scores_are_those_of_the_common_rules_where_nothing_more_is_known(strategy):
    one = kubelet(policy="single-numa-node", with_placement=False)
    cluster = cluster_of(one, strategy=strategy)
    assert 0 <= cluster.scores(a_pod("p", (1, 1, 0)), ["w0", "unknown"])["w0"] <= 100
    assert cluster.scores(a_pod("p", (1, 1, 0)), ["unknown"]) == {"unknown": 0}
