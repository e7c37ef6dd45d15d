"""Every NUMA node is shown, on a narrow terminal too, and every CPU is counted once."""

import io
import itertools

import msgspec
import pytest
from rich.console import Console

from numalign.adapters.sources.discovery import discover
from numalign.apps.agent import events
from numalign.apps.agent.config import AgentConfig
from numalign.apps.agent.model import AgentState
from numalign.apps.agent.run import setup_of
from numalign.apps.agent.step import step
from numalign.apps.agent.views.node import node_view
from numalign.cli.client.agent_rows import cpu_records
from numalign.cli.client.top_view import view
from numalign.core.kubelet import host as hosts
from numalign.core.values.sets import parse_list
from numalign.wire.pods.workloads import expanded


def node_of(name, *pods):
    """What /node says of an example machine with these pods."""
    machine = discover(name)
    setup, _ = setup_of(AgentConfig(), machine)
    state = AgentState(hosts.cleaned(setup.host, hosts.start(setup.host)))
    state, _ = step(setup, state, events.SourcesReady(0.0))
    numbers = itertools.count()
    for pod in pods:
        [record] = expanded(msgspec.json.encode(pod), source="test").required().pods
        uid = f"u{next(numbers)}"
        state, _ = step(setup, state, events.PodSubmitted(uid, record, "api", 0.0, None))
    return msgspec.json.decode(msgspec.json.encode(node_view(setup, state, machine), enc_hook=str))


def pod(name, cpu, init=None, memory="1Gi"):
    def container(called, count):
        return {"name": called, "resources": {"limits": {"cpu": str(count), "memory": memory}}}

    spec = {"containers": [container("app", cpu)]}
    if init is not None:
        spec["initContainers"] = [container("prepare", init)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def shown(node, width):
    console = Console(width=width, file=io.StringIO(), no_color=True, highlight=False, markup=False)
    console.print(view(node, [], [], 0.0, width))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", ["epyc-2s-nps4", "xeon-8s", "xeon-2s", "vm-2cpu"])
def test_top_shows_every_node_with_its_free_cpus_however_narrow(name, width):
    node = node_of(name, pod("one", 1))
    lines = shown(node, width)
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines[: lines.index("")])
    for numa in node["nodes"]:
        free, count = (parse_list(numa["cpus"][use]).bit_count() for use in ("free", "all"))
        row = [line for line in lines if line.startswith(f"{numa['id']} ") and "[" in line]
        assert len(row) == 1, lines
        assert f"{free}/{count}" in row[0]


def test_eight_nodes_take_eight_lines_on_80_columns():
    lines = shown(node_of("epyc-2s-nps4", pod("one", 6)), 80)
    rows = [line for line in lines if line[:1].isdigit()]
    assert len(rows) == 8
    assert rows[0] == (
        "0     [####-----------------.]        25/32  1 GiB/125.7 GiB  25 CPUs, 115.6 GiB"
    )


def test_nodes_of_memory_only_that_nobody_uses_share_a_row():
    lines = shown(node_of("gb200"), 80)
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["0", "1", "2-33"]
    [folded] = [line for line in lines if line.startswith("2-33")]
    assert folded.split() == ["2-33", "no", "CPUs", "-", "0", "B/736", "GiB", "unused"]


def test_one_node_of_memory_only_stands_for_itself():
    lines = shown(node_of("xeon-2s-cxl"), 80)
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["epyc-2s-nps4", "xeon-2s", "vm-2cpu", "gb200"])
def test_the_rows_of_cpus_count_each_cpu_once(name):
    count = len(discover(name).online)
    big, small = (4, 2) if count > 8 else (1, 1)
    node = node_of(name, pod("first", small, init=big), pod("second", small), pod("third", small))
    seen = [cpu for row in cpu_records(node) for cpu in numbers(row["cpus"])]
    assert sorted(seen) == sorted(numbers(node["machine"]["cpus"]))
    assert sum(row["count"] for row in cpu_records(node)) == count


def numbers(text):
    mask = parse_list(text)
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def test_a_cpu_that_an_init_container_leaves_to_the_next_one_names_both():
    node = node_of("xeon-2s", pod("web", 2, init=4))
    own = [row for row in cpu_records(node) if row["use"] == "exclusive"]
    assert [(row["count"], row["containers"]) for row in own] == [
        (2, ["default/web/prepare", "default/web/app"]),
        (2, ["default/web/prepare"]),
    ]
