"""The commands about a fleet, from a scenario to a plan of moves, as somebody would use them."""

import json

import pytest
from tests.apps.simulator.scenarios import SMALL

from numalign.cli.main import main


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL.replace("seeds: 1-2", "seeds: 1"))
    return path


@pytest.fixture(scope="module")
def fleet(scenario):
    """A capture of the simulated fleet when it is full."""
    path = scenario.parent / "fleet.tar.gz"
    options = ["--scheduler", "totals", "--fleet", "--at", "8h", "-o", str(path)]
    assert main(["simulate", str(scenario), *options]) == 0
    return path


def out(capsys, *arguments, code=0):
    assert main([str(a) for a in arguments]) == code
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert main([str(a) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def test_a_report_is_one_page_with_tables_beside_it(capsys, scenario, tmp_path):
    text = out(capsys, "simulate", scenario, "--scheduler", "numalign", "-o", tmp_path / "r")
    assert "numalign does best" in text
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<script" not in page
    assert "http" not in page
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    assert report["summary"][0]["scheduler"] == "numalign"
    assert (tmp_path / "r" / "summary.csv").read_text().startswith("variant,scheduler,")
    assert (tmp_path / "r" / "samples.csv").read_text().count("\n") == 13


def test_a_simulated_host_opens_as_any_captured_one(capsys, scenario, tmp_path):
    bundle = tmp_path / "host.tar.gz"
    out(capsys, "simulate", scenario, "--host", "h-0002", "--at", "300m", "-o", bundle)
    found = json.loads(
        out(capsys, "capacity", "--shape", "cpu=1", "--from", bundle, code=2) or "{}"
    )
    assert found == {}  # one host is no fleet
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n"
        "    resources: {limits: {cpu: 99, memory: 1Gi}}\n"
    )
    text = out(capsys, "explain", "--on", bundle, "-f", pod, code=1)
    assert "99" in text


def test_capacity_counts_what_hosts_would_take(capsys, fleet):
    [found] = json.loads(
        out(capsys, "capacity", "--from", fleet, "--shape", "cpu=1,memory=1Gi", "-o", "json")
    )
    assert found["fits"] == sum(host["fits"] for host in found["hosts"])
    assert found["pools"]["h"]["hosts"] == 5
    assert {host["binding"]["where"] for host in found["hosts"]} <= {"total", "numa-node"}
    table = out(capsys, "capacity", "--from", fleet, "--shape", "cpu=1,memory=1Gi", "--hosts")
    assert "h-0004" in table


def test_nothing_fits_is_exit_code_1(capsys, fleet):
    text = out(capsys, "capacity", "--from", fleet, "--shape", "cpu=500", code=1)
    assert "0 more on 5 hosts" in text


def test_a_plan_is_a_table_json_or_commands(capsys, fleet):
    plan = json.loads(out(capsys, "defrag", "--from", fleet, "--moves", "3", "-o", "json"))
    assert 0 < len(plan["moves"]) <= 3
    assert plan["fNumaCpus"]["after"] < plan["fNumaCpus"]["before"]
    lines = out(capsys, "defrag", "--from", fleet, "--moves", "3", "-o", "commands").splitlines()
    assert len([line for line in lines if line.startswith("move ")]) == len(plan["moves"])
    assert "F_numa" in out(capsys, "defrag", "--from", fleet, "--moves", "3")


def test_who_is_not_selected_does_not_move(capsys, fleet):
    plan = json.loads(out(capsys, "defrag", "--from", fleet, "-l", "a=b", "-o", "json"))
    assert plan["moves"] == []
    assert plan["notMovable"]["not selected"] > 0


def test_a_captured_fleet_is_where_a_simulation_starts(capsys, scenario, fleet):
    text = SMALL.split("hosts:")[0] + f"hosts: [{{group: h, capture: {fleet.name}}}]\n"
    text += "work: [{preset: web-mix, pods: 20, hours: 1}]\nseeds: 1\nschedulers: [numalign]\n"
    path = scenario.parent / "goes-on.yaml"
    path.write_text(text)
    assert "pods placed" in out(capsys, "simulate", path)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["simulate", "missing.yaml"], "missing.yaml"),
        (["capacity", "--from", "SCENARIO", "--shape", "cpu=1"], "found no archive"),
        (["capacity", "--from", "FLEET"], "found no shape, expected --shape"),
        (["capacity", "--from", "FLEET", "--shape", "cpu"], "found 'cpu', expected amounts"),
        (["capacity", "--from", "FLEET", "--shape", "memory=1Gi"], "found no cpu"),
        (["capacity", "--from", "FLEET", "--shape", "cpu=x"], "--shape: cpu: found 'x'"),
        (["defrag", "--from", "FLEET", "--align", "--moves", "2"], "expected one goal"),
        (["defrag", "--from", "FLEET", "--execute"], "a capture cannot be changed"),
        (["simulate", "SCENARIO", "--at", "3h"], "--at: found it alone"),
        (["simulate", "SCENARIO", "--host", "nobody"], "found no host 'nobody'"),
        (["simulate", "SCENARIO", "--host", "h-0000", "--at", "soon"], "--at: found 'soon'"),
        (["simulate", "SCENARIO", "--seeds", "x"], "--seeds: found 'x'"),
        (["simulate", "SCENARIO", "--scheduler", "x"], "found the scheduler 'x'"),
    ],
)
def test_bad_input_is_one_line(capsys, scenario, fleet, arguments, problem):
    places = {"SCENARIO": str(scenario), "FLEET": str(fleet)}
    assert problem in refused(capsys, *(places.get(a, a) for a in arguments))
