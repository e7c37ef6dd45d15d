import os
import subprocess
from dataclasses import replace

import pytest
from tests.core.cluster.scheduling.kubelets import a_pod
from tests.core.fleet.test_capacity import a_host

from numalign.apps.defrag.planning import Rules, commands, let_in, question_of
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostRequirements,
    Taint,
)
from numalign.core.fleet.capacity import FleetHost
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.wire.kubernetes.budgets import Budget
from numalign.wire.kubernetes.scheduling import VOLUME_CLAIMS, ClusterPod


def a_cluster_pod(name, host="h0", cpus=2, **others):
    core = replace(a_pod(name, (cpus, 1, 0)), namespace="shop", name=name)
    others = {"owner": "ReplicaSet/web", "phase": "Running", "labels": {"app": name}, **others}
    return ClusterPod(core, host=host, **others)


def a_question(pods, hosts=2, *, rules=None, facts=(), wanted=(), cpus=8):
    """Hosts with one NUMA node, of whose CPUs one is kept back."""
    frame = a_host(nodes=1, cpus=cpus)
    fleet = []
    for i in range(hosts):
        state = frame.empty
        for pod in pods:
            if pod.host == f"h{i}":
                state, verdict = verdict_on(frame.host, state, frame.totals, pod.pod)
                assert pod.pod.uid in state.pods, verdict
        fleet.append(FleetHost(f"h{i}", frame, state))
    return question_of(fleet, pods, rules or Rules(), facts, wanted)


def wanted(*cpus):
    return [
        replace(a_pod(f"wanted-{i}", (c, 1, 0)), name=f"w{i}", namespace="shop")
        for i, c in enumerate(cpus)
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"owner": ""}, "nothing would replace it"),
        ({"owner": "DaemonSet/agent"}, "nothing would replace it"),
        ({"is_deleted": True}, "not running"),
        ({"priority": 11}, "too important"),
        ({"labels": {"app": "db"}}, "disruption budget db"),
        ({"labels": {"tier": "critical"}}, "not selected"),
        (
            {"requirements": HostRequirements(unsupported=(VOLUME_CLAIMS,))},
            "its persistent volume claims may hold it where it is",
        ),
    ],
)
def test_who_may_not_be_moved_is_told_with_the_reason(changes, why):
    budgets = (Budget("db", "shop", {"app": "db"}, (), 0), Budget("web", "shop", {}, (), 1))
    rules = Rules(lambda labels: labels.get("tier") != "critical", frozenset(), 10, budgets)
    assert rules.objection(a_cluster_pod("p", **changes)) == why


def test_a_gang_is_let_in_as_a_whole_or_not_at_all():
    pods = [a_cluster_pod("a"), a_cluster_pod("b", "h1")]  # 5 of 7 CPUs left on each
    plan = let_in(a_question(pods), wanted(7, 5))
    assert len(plan.moves) == 0
    assert plan.unresolved == ("shop/w1",)
    assert not plan.targets
    plan = let_in(a_question(pods), wanted(7, 3))
    assert [(m.name, m.target) for m in plan.moves] == [("shop/a", "h1")]
    assert plan.targets == {"shop/w0": "h0", "shop/w1": "h1"}
    assert plan.lower_bound == 1


def test_what_is_told_as_least_holds_whoever_is_let_in_first():
    # Two of 4 fit as it is, three do not; each alone would.
    pods = [a_cluster_pod("a"), a_cluster_pod("b", "h1")]
    assert let_in(a_question(pods), wanted(4, 4)).lower_bound == 0
    assert let_in(a_question(pods), wanted(4, 4, 4)).lower_bound == 1


def test_a_plan_keeps_to_the_taints_of_hosts():
    pods = [a_cluster_pod("a")]
    new = ClusterPod(wanted(7)[0], HostRequirements(selector=(("zone", "a"),)))
    zone = HostFacts("h0", {"zone": "a"})
    open_, closed = HostFacts("h1"), HostFacts("h1", taints=(Taint("db", "", "NoSchedule"),))
    plan = let_in(a_question(pods, facts=(zone, open_), wanted=[new]), [new.pod])
    assert [(m.name, m.target) for m in plan.moves] == [("shop/a", "h1")]
    plan = let_in(a_question(pods, facts=(zone, closed), wanted=[new]), [new.pod])
    assert (plan.moves, plan.unresolved) == ((), ("shop/w0",))


TWO_IN_THE_WAY = [
    a_cluster_pod("a", cpus=3),
    a_cluster_pod("b", cpus=1),
    a_cluster_pod("c", "h1", 3, owner=""),
]
KUBECTL = """#!/bin/sh
# Says what it was asked, and counts one more pod on a host after each eviction for it.
echo "$@" >> "$LOG"
case "$*" in
  *eviction*) cat >> "$LOG"; echo >> "$LOG"; [ -e "$LOG.stuck" ] || echo pod >> "$LOG.pods" ;;
  *) cat "$LOG.pods" 2>/dev/null || true ;;
esac
"""


def run_commands(tmp_path, text):
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    for name, body in (("sleep", ""), ("seq", "echo 1 2")):  # no real waiting
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {"PATH": path, "LOG": str(tmp_path / "log")}
    return subprocess.run(
        ["sh"], input=text, env=environment, capture_output=True, text=True, check=False
    )


def test_commands_evict_one_pod_after_the_other(tmp_path):
    plan = let_in(a_question(TWO_IN_THE_WAY), wanted(7))
    assert len(plan.moves) == 2
    text = "\n".join(commands(plan)) + "\n"
    done = run_commands(tmp_path, text)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "log").read_text()
    evictions = [line for line in asked.splitlines() if "/eviction" in line]
    assert [line.split("/")[-2] for line in evictions] == [m.name.split("/")[1] for m in plan.moves]
    assert '"kind":"Eviction","metadata":{"name":"a"}' in asked
    assert "spec.nodeName=h1,status.phase=Running" in asked


def test_commands_end_where_no_new_pod_runs(tmp_path):
    (tmp_path / "log.stuck").touch()
    plan = let_in(a_question(TWO_IN_THE_WAY), wanted(7))
    done = run_commands(tmp_path, "\n".join(commands(plan)) + "\n")
    assert done.returncode == 1
    assert "no new pod runs on h1 after 300 s: plan anew" in done.stderr
    assert (tmp_path / "log").read_text().count("/eviction") == 1
