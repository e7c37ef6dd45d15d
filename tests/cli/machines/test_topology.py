"""``numalign topology`` and ``numalign machines``."""

import json
import os

import pytest
import yaml
from defusedxml import ElementTree

from numalign.adapters.sources.discovery import discover
from numalign.apps.render import png
from numalign.cli.main import main
from numalign.cli.output import format_of
from numalign.core.machine.examples.catalogue import EXAMPLES


def shown(capsys, *args: str) -> str:
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_without_options_it_shows_this_host_as_a_tree(capsys):
    assert "NUMA node" in shown(capsys, "topology")


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_data_can_be_read_back_as_the_same_machine(ending, capsys, tmp_path):
    text = shown(capsys, "topology", "-m", "gb200", "-o", ending)
    path = tmp_path / f"machine.{ending}"
    path.write_text(text)
    assert discover(str(path)) == EXAMPLES["gb200"].machine()


def test_json_is_json_and_yaml_is_yaml(capsys):
    as_json = json.loads(shown(capsys, "topology", "-m", "vm-2cpu", "-o", "json"))
    assert as_json == yaml.safe_load(shown(capsys, "topology", "-m", "vm-2cpu", "-o", "yaml"))


def test_tree_table_svg_and_html_go_to_stdout(capsys):
    assert "├─ Socket 0" in shown(capsys, "topology", "-m", "xeon-2s", "-o", "tree")
    assert "DISTANCE" in shown(capsys, "topology", "-m", "xeon-2s", "-o", "table")
    ElementTree.fromstring(shown(capsys, "topology", "-m", "xeon-2s", "-o", "svg"))
    assert shown(capsys, "topology", "-m", "xeon-2s", "-o", "html").startswith("<!DOCTYPE html>")


def test_full_unfolds_the_tree(capsys):
    assert "core 27: CPUs 27,83" in shown(capsys, "topology", "-m", "xeon-2s", "--full")


def test_a_png_goes_to_a_pipe(capsysbinary):
    assert main(["topology", "-m", "vm-2cpu", "-o", "png"]) == 0
    assert capsysbinary.readouterr().out == png.render(EXAMPLES["vm-2cpu"].machine())


def test_a_png_does_not_go_to_a_terminal(on_terminal):
    code, said = on_terminal("topology", "-m", "vm-2cpu", "-o", "png")
    assert code == 2
    assert said.startswith("error: A PNG picture is not for a terminal")
    assert "--output-file" in said


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("m.svg", b"<svg "),
        ("m.PNG", b"\x89PNG"),
        ("m.html", b"<!DOCTYPE"),
        ("m.json", b"{"),
        ("m.yml", b"apiVersion: "),
        ("m.txt", b"vm-2cpu: 1 socket"),
        ("m", b"vm-2cpu: 1 socket"),
    ],
)
def test_the_ending_of_a_file_tells_the_format(name, start, tmp_path, capsys):
    path = tmp_path / name
    assert shown(capsys, "topology", "-m", "vm-2cpu", "--output-file", str(path)) == ""
    assert path.read_bytes().startswith(start)


def test_the_option_wins_over_the_ending(tmp_path, capsys):
    path = tmp_path / "m.svg"
    shown(capsys, "topology", "-m", "vm-2cpu", "-o", "table", "--output-file", str(path))
    assert path.read_text().startswith("vm-2cpu: ")
    assert format_of(path, ("tree", "svg"), "tree") == "svg"


def test_the_tree_fits_the_terminal(capsys, monkeypatch):
    monkeypatch.setitem(os.environ, "COLUMNS", "60")
    lines = shown(capsys, "topology", "-m", "xeon-4s").splitlines()
    assert max(map(len, lines)) <= 60


def test_verbose_tells_on_stderr_what_was_done(capsys, tmp_path):
    path = tmp_path / "m.svg"
    assert main(["topology", "-v", "-m", "vm-2cpu", "--output-file", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" ")[:2] for line in err.splitlines()] == [
        ["debug:", "read"],
        ["debug:", "wrote"],
    ]


def test_a_shape_is_a_machine_too(capsys):
    text = shown(capsys, "topology", "-m", "2s:1n:16c:2t")
    assert "2 sockets, 2 NUMA nodes, 32 cores, 64 CPUs" in text


def test_machines_lists_every_example_and_says_how_to_use_one(capsys):
    text = shown(capsys, "machines")
    for example in EXAMPLES.values():
        assert f"{example.name} " in text
    assert "numalign topology --machine" in text


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_machines_are_data_too(form, capsys):
    read = {"json": json.loads, "yaml": yaml.safe_load}[form]
    found = read(shown(capsys, "machines", "-o", form))
    assert [one["name"] for one in found] == list(EXAMPLES)
    assert found[-1] | {"description": "", "title": "", "memoryBytes": 0} == {
        "name": "gb200",
        "title": "",
        "description": "",
        "sockets": 2,
        "numaNodes": 34,
        "cores": 144,
        "cpus": 144,
        "memoryBytes": 0,
    }
