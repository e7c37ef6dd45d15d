"""The host as JSON, from states of the real step."""

import pytest
from tests.apps.agent.shown import node, submit
from tests.core.hosts import GI
from tests.web.in_memory_agent import InMemoryAgent, manifest


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


def test_a_node_shows_who_has_its_cpus_and_memory(agent):
    submit(agent, manifest(gpus=1))
    first, second = node(agent)["nodes"]
    assert first["cpus"] == {
        "all": "0-3,8-11",
        "exclusive": "2,10",
        "shared": "0-1,3,8-9,11",
        "free": "3,8-9,11",
        "reserved": "0-1",
    }
    (occupant,) = first["occupants"]
    assert (occupant["pod"], occupant["container"], occupant["cpus"]) == ("web", "main", "2,10")
    assert first["memory"][0]["usedBytes"] == GI
    assert second["occupants"] == []
    holders = {d["id"]: d["holder"] and d["holder"]["pod"] for d in node(agent)["devices"]}
    assert holders == {"g0": "web", "g1": None, "g2": None, "g3": None}


def test_totals_are_quantities(agent):
    submit(agent, manifest(cpu="500m"))
    shown = node(agent)
    assert shown["allocatable"]["cpu"] == "14"
    assert shown["requested"] == {"pods": "1", "cpu": "500m", "memory": "1Gi"}
    assert shown["reserved"]["cpus"] == "0-1"


@pytest.mark.parametrize("options", [(), ("full-pcpus-only",), ("strict-cpu-reservation",)])
@pytest.mark.parametrize("filled", [(), ("2",), ("4", "6"), ("3", "500m")])
def test_the_largest_shape_of_each_node_is_exact(tmp_path, options, filled):
    agent = InMemoryAgent(tmp_path, cpu_options=options)
    for number, cpu in enumerate(filled):
        submit(agent, manifest(f"p{number}", cpu=cpu))
    shapes = node(agent)["largest"]
    best = max(shape["cpus"] for shape in shapes)
    memory = max(s["memory"]["memory"] for s in shapes if s["cpus"] == best)
    before = agent.state
    assert submit(agent, manifest("fits", cpu=str(best), memory=str(memory))).accepted
    step_cpus = 2 if options == ("full-pcpus-only",) else 1
    agent.state = before
    assert not submit(agent, manifest("wider", cpu=str(best + step_cpus))).accepted
    agent.state = before
    larger = max(s["memory"]["memory"] for s in shapes) + 4096
    assert not submit(agent, manifest("larger", cpu=str(best), memory=str(larger))).accepted


def test_with_whole_cores_only_the_half_free_core_does_not_count(tmp_path):
    agent = InMemoryAgent(tmp_path, reserved="0", cpu_options=["full-pcpus-only"])
    assert [shape["cpus"] for shape in node(agent)["largest"]] == [6, 8]


def test_a_full_host_has_no_shape_left(tmp_path):
    agent = InMemoryAgent(tmp_path)
    for name in ("a", "b"):
        submit(agent, manifest(name, cpu="6" if name == "a" else "8"))
    assert [shape["cpus"] for shape in node(agent)["largest"]] == [0, 0]


def test_without_a_memory_manager_only_the_total_bounds_memory(tmp_path):
    agent = InMemoryAgent(tmp_path, memory=False)
    submit(agent, manifest())
    first = node(agent)["nodes"][0]
    assert first["memory"] == [] and first["memoryGroup"] == [0]
    assert node(agent)["largest"][0]["memory"]["memory"] == 127 * GI
