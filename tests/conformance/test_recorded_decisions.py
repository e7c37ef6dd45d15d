"""Every recorded decision of the real kubelet comes out the same."""

import gzip
import json
from pathlib import Path

import pytest
from tests.paths import VECTORS

from numalign.conformance.__main__ import main
from numalign.conformance.kinds import KINDS, kind_of

CLUSTER = sorted(VECTORS.glob("cluster/*.json.gz"))
FILES = sorted([*VECTORS.rglob("*.jsonl.gz"), *VECTORS.rglob("live*/*.json.gz"), *CLUSTER])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(VECTORS)))
def test_agrees_with_the_kubelet(path, capsys):
    code = main([str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, "\n".join(lines[:20])
    assert lines[-1].endswith(" passed, 0 failed")
    assert not lines[-1].startswith("0 ")


def first_lines(path, count=1):
    with gzip.open(path, "rt") as stream:
        if path in CLUSTER:
            return json.load(stream)[:count]
        return [json.loads(stream.readline()) for _ in range(count)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(VECTORS)))
def test_the_kind_of_a_file_is_told_by_its_content_too(path):
    line = first_lines(path)[0]
    named = kind_of(path, line)
    guessed = kind_of(Path("renamed.jsonl"), line)
    alike = [{"scenarios", "resize"}, {"take_cpus", "take_distributed"}]
    assert named is guessed or {named.name, guessed.name} in alike


def test_every_kind_has_its_own_name():
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_changed_expectation_is_reported_with_the_step_and_both_values(tmp_path, capsys):
    line = first_lines(VECTORS / "scenarios.jsonl.gz")[0]
    step = next(s for s in line["expected"]["steps"] if s.get("containers", [{}])[0].get("cpus"))
    right = step["containers"][0]["cpus"]
    step["containers"][0]["cpus"] = "99"
    assert main([str(write_lines(tmp_path / "scenarios.jsonl", [line]))]) == 1
    out = capsys.readouterr().out
    assert f"cpus {right}, expected 99" in out
    assert "step 1 (admit" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"


def test_changed_bytes_of_a_state_file_are_reported(tmp_path, capsys):
    line = first_lines(VECTORS / "scenarios.jsonl.gz")[0]
    files = line["expected"]["files"]
    files["cpu_manager_state"] = files["cpu_manager_state"].replace("static", "statik")
    assert main([str(write_lines(tmp_path / "scenarios.jsonl", [line]))]) == 1
    assert "file cpu_manager_state" in capsys.readouterr().out


def test_a_step_that_the_real_code_broke_ends_the_replay(tmp_path, capsys):
    line = first_lines(VECTORS / "scenarios.jsonl.gz")[0]
    line["expected"]["real_code_defects"] = [[1, "cpu_in_two_pods"]]
    line["expected"]["steps"][1]["admitted"] = False
    assert main([str(write_lines(tmp_path / "scenarios.jsonl", [line]))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def test_the_version_comes_from_the_path_or_from_the_option(tmp_path, capsys):
    line = first_lines(VECTORS / "1.37" / "scenarios-1.37.jsonl.gz", 5)[4]
    folder = tmp_path / "from-1.37"
    folder.mkdir()
    named = write_lines(folder / "x.jsonl", [line])
    other = write_lines(tmp_path / "x.jsonl", [line])
    assert main([str(named)]) == 0
    assert main([str(other)]) == 1
    assert main(["--kubernetes", "1.37", str(other)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not json\n", "found no JSON"),
        (b"[1, 2]\n", "item 1 is int, expected an object"),
        (b"[{}\n", "found no JSON"),
        (b"3\n", "found int, expected an object"),
        (b'{"what": "is this"}\n', "the first line has the members ['what']"),
        (b"\x1f\x8b\x08broken", "cannot be read"),
        (b'{"scenario": {}, "expected": {}}\n', "not a line of kind scenarios"),
    ],
)
def test_a_file_that_is_no_vector_file_gets_one_clear_line(tmp_path, capsys, content, words):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert str(path) in error
    assert "Traceback" not in error


def test_a_missing_file_gets_one_clear_line(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere.jsonl")]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("filter", {"reason": "no"}, "reason: expected 'no'"),
        ("filter", {"reason": "no"}, "reason in columns: expected 'no'"),
        ("filter", {"numa": [["app", 7]]}, "numa: expected [['app', 7]]"),
        ("score", {"score": {"MostAllocated": 101}}, "MostAllocated: expected 101"),
        ("score", {"score": {"LeastAllocated": -1}}, "LeastAllocated in columns: expected -1"),
        ("leastnuma", {"score": 101}, "LeastNUMANodes in columns: expected 101"),
        ("fingerprint", {"fingerprint": "pfp0"}, "fingerprint: expected 'pfp0'"),
    ],
)
def test_a_changed_decision_of_the_scheduler_is_reported(tmp_path, capsys, name, change, words):
    line = first_lines(VECTORS / "cluster" / f"{name}.json.gz")[0]
    path = tmp_path / f"{name}-more.json"
    path.write_text(json.dumps([line | change, line]))
    assert main([str(path)]) == 1
    out = capsys.readouterr().out
    assert words in out
    assert out.splitlines()[-1] == "1 passed, 1 failed"
