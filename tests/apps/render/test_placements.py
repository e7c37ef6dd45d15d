"""Tables of placements: nodes beside numbers, totals, and equal refusals told once."""

from dataclasses import replace

from tests.core.hosts import GI, machine, settings

from numalign.apps.render.placements import refusal_lines, rows, totals_text
from numalign.apps.snapshots.verdicts import Outcome
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import HostSnapshot, decide
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.pod import Container, Pod
from numalign.core.values.quantity import Quantity


def amounts(cpu, memory):
    return {"cpu": Quantity.parse(str(cpu)), "memory": Quantity.of(memory, binary=True)}


def container(name, cpu, memory=GI, **more):
    return Container(name, amounts(cpu, memory), amounts(cpu, memory), **more)


def pod(name, *containers, init=()):
    return Pod(name, name, "default", tuple(init), containers)


def asked(*pods, policy="best-effort"):
    configured, info = settings(policy), machine(nodes=2, cores=2, threads=2)
    host = hosts.build(configured, info)
    state = hosts.cleaned(host, hosts.start(host))
    totals = node_fit.allocatable(configured, info)
    snapshot = HostSnapshot(synthetic_machine("2s:1n:2c:2t"), host, state, totals)
    found = []
    for one in pods:
        after, verdict = decide(snapshot, one)
        found.append(Outcome(one, snapshot, after, verdict))
        snapshot = after
    return found


def test_each_number_stands_with_its_node():
    [outcome] = asked(pod("a", container("c", 5)))
    assert rows(outcome) == [
        ("default/a", "c", "1@0 4-7@1", "1 GiB@0-1", "-", "no", "21.0"),
    ]


def test_cpus_that_an_init_container_leaves_to_others_count_once():
    outcomes = asked(pod("a", container("c", 2), init=[container("i", 2, 2 * GI, is_init=True)]))
    own = [row[2] for row in rows(outcomes[0])]
    assert own[0] == own[1]
    assert totals_text(outcomes).startswith(
        "total: 1 of 1 pod admitted, 2 CPUs of their own on NUMA node 0, 2 GiB of memory"
    )


def test_one_without_anything_of_its_own_is_shared_and_anywhere():
    [outcome] = asked(Pod("b", "b", "default", (), (Container("c"),)))
    assert rows(outcome) == [("default/b", "c", "shared", "any", "-", "-", "-")]
    assert totals_text([outcome]) == "total: 1 of 1 pod admitted"


def test_equal_pods_are_refused_in_one_line_and_others_in_their_own():
    replicas = [pod(f"web-{i}", container("c", 2)) for i in range(5)]
    outcomes = asked(*replicas, pod("big", container("c", 6)))
    first, second = refusal_lines(outcomes)
    assert first.startswith("default/web: 3 of 5 admitted; 2 refused for the same reason: ")
    assert second.startswith("default/big would be refused: ")


def test_a_single_refusal_among_equal_pods_keeps_its_name():
    replicas = [pod(f"web-{i}", container("c", 2)) for i in range(4)]
    [line] = refusal_lines(asked(*replicas))
    assert line.startswith("default/web: 3 of 4 admitted; web-3 refused: ")


def test_equal_pods_of_two_namespaces_are_told_apart():
    one = pod("big", container("c", 9))
    outcomes = asked(one, replace(one, uid="o", namespace="other"))
    assert [line.split(" ")[0] for line in refusal_lines(outcomes)] == ["default/big", "other/big"]
