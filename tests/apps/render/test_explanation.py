"""An explanation for people, drawn from plain values."""

import json
import re

import pytest
from tests.core.hosts import container, machine, pod, settings
from tests.core.snapshots import gpus, snapshot

from numalign.apps.render.explanation import render
from numalign.apps.render.text import Tone, plain
from numalign.apps.snapshots import explaining
from numalign.core.explain.explain import asked

GPU = "example.com/gpu"


def answered(on, new):
    found = explaining.answer(on, asked(on, new), going=lambda _stage, _runs: True)
    return json.loads(json.dumps(found))  # as it comes from a file or an agent


@pytest.fixture
def on():
    return snapshot(
        settings("single-numa-node"),
        machine(),
        pod("a", container("c", 3, "4Gi", gpu=1)),
        plugins={GPU: gpus(0, 1, 1, sick={2})},
    )


def test_the_host_is_drawn_with_the_pod_the_others_and_what_is_reserved(on):
    text = plain(render(answered(on, pod("b", container("app", 2, "8Gi", gpu=1))), width=160))
    lines = text.splitlines()
    assert next(line for line in lines if line.startswith("node 0")) == (
        "node 0  [R###....]  ===....... 11 GiB free  example.com/gpu #"
    )
    assert next(line for line in lines if line.startswith("node 1")) == (
        "node 1  [PP......]  =====..... 8 GiB free P  example.com/gpu Px"
    )
    assert "app        100% local, mean 10, worst 10  100% local, mean 10, worst 10" in text


def test_a_refusal_is_a_warning_with_its_changes_in_order(on):
    answer = answered(on, pod("b", container("app", 9, "8Gi")))
    lines = render(answer)
    assert lines[0][1].tone is Tone.WARNING
    text = plain(lines)
    numbers = [line for line in text.splitlines() if re.match(r" ?\d+\. ", line)]
    assert numbers[0].startswith(" 1. let container app ask for 8 CPUs instead of 9")
    assert len(numbers) == len(answer["changes"])


def test_a_stopped_search_says_so(on):
    answer = answered(on, pod("b", container("app", 9, "8Gi"))) | {"complete": False}
    assert "The search was stopped; there may be more." in plain(render(answer))


def test_only_the_sentence_is_needed():
    answer = {"admitted": True, "sentence": "Pod a is admitted."}
    assert plain(render(answer)) == "Pod a is admitted.\n"


def test_names_cannot_move_the_cursor():
    answer = {"admitted": True, "sentence": "Pod \x1b[2Ja is admitted."}
    assert "\x1b" not in plain(render(answer))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_prose_keeps_to_the_width(on, width):
    text = plain(render(answered(on, pod("b", container("app", 9, "8Gi"))), width=width))
    sentence = text.split("\n\n")[0]
    assert max(map(len, sentence.splitlines())) <= width


def test_large_nodes_are_drawn_with_several_cpus_to_a_mark():
    large = snapshot(settings("none"), machine(1, cores=64, threads=2))
    text = plain(render(answered(large, pod("a", container("app", 4, "1Gi")))))
    assert "one mark is 2 CPUs" in text
    [line] = [line for line in text.splitlines() if line.startswith("node 0")]
    assert len(line.partition("[")[2].partition("]")[0]) == 64
