"""``memory_manager_state`` in both directions, byte for byte, and every refusal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.checkpoints.reading import (
    check_loaded_or_refused,
    check_recorded,
    refusal_of,
)
from tests.wire.checkpoints.states import MEMORY_STATES, SETTINGS, damage

from numalign.conformance import checkpoints
from numalign.core.kubelet.state import Block, MemoryState, MemoryTable, NodeMemory
from numalign.core.settings import Settings, Version
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints.memory_records import Record, checksum_v1

POD_LEVEL = "PodLevelResourceManagers"
V36 = Settings(version=Version.V1_36, memory_policy="Static")
V37 = Settings(version=Version.V1_37, memory_policy="Static")
ONE_BLOCK = MemoryState(
    "Static",
    {0: NodeMemory(1, (0,), {"memory": MemoryTable(100, 10, 90, 40, 50)})},
    {"pod-a": {"c0": (Block((0,), "memory", 40),)}},
)


def refusal(text: str, config: Settings) -> str:
    return refusal_of(memory_checkpoint, "memory", text, config)


@pytest.mark.parametrize(
    ("name", "count"), [("unit/checkpoint_memory", 400), ("1.37/checkpoint_memory_v3", 324)]
)
def test_agrees_with_every_recorded_file_in_both_directions(name: str, count: int) -> None:
    check_recorded(name, checkpoints.checkpoint_memory, count)


def test_writes_the_examples_of_the_formats() -> None:
    v1 = (
        '{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":'
        '{"total":100,"systemReserved":10,"allocatable":90,"reserved":40,"free":50}},"cells":[0]}},'
        '"entries":{"pod-a":{"c0":[{"numaAffinity":[0],"type":"memory","size":40}]}}'
    )
    assert memory_checkpoint.encode(ONE_BLOCK, V36).decode() == v1 + ',"checksum":3718001099}'
    assert memory_checkpoint.encode(ONE_BLOCK, V37).decode() == (
        f'{v1},"checksum":3718001099,"data":{json.dumps(v1 + "}")},"dataChecksum":1729192882}}'
    )
    assert memory_checkpoint.encode(MemoryState("None"), V36) == (
        b'{"policyName":"None","machineState":{},"checksum":4236770233}'
    )


def test_nodes_are_sorted_as_texts_in_the_file_and_as_numbers_in_the_dump() -> None:
    nodes = {number: NodeMemory(0, (number,), {}) for number in (2, 10)}
    written = memory_checkpoint.encode(MemoryState("Static", nodes), V36).decode()
    assert written.index('"10"') < written.index('"2"')
    assert memory_checkpoint.decode(written.encode(), V36).machine == nodes


@settings(max_examples=50)
@given(MEMORY_STATES, SETTINGS)
def test_a_state_reads_back_as_far_as_its_gates_let_it_be_written(
    state: MemoryState, config: Settings
) -> None:
    written = memory_checkpoint.encode(state, config)
    found = memory_checkpoint.decode(written, config)
    assert found == replace(state, pod_blocks=state.pod_blocks if config.gate(POD_LEVEL) else {})
    assert memory_checkpoint.encode(found, config) == written


@settings(max_examples=50)
@given(st.data(), MEMORY_STATES, SETTINGS, SETTINGS)
def test_a_damaged_file_is_loaded_or_refused_but_nothing_else(
    data: st.DataObject, state: MemoryState, writer: Settings, reader: Settings
) -> None:
    file = data.draw(damage(memory_checkpoint.encode(state, writer)))
    check_loaded_or_refused(memory_checkpoint, file, reader)


def test_the_checksum_name_of_version_1_is_accepted_only_by_1_36_without_the_gate() -> None:
    number = checksum_v1(Record(policy="Static"), "MemoryManagerCheckpointV1")
    file = f'{{"policyName":"Static","machineState":{{}},"checksum":{number}}}'
    assert memory_checkpoint.decode(file.encode(), V36) == MemoryState("Static")
    assert refusal(file, V37) == "checkpoint is corrupted"
    assert refusal(file, replace(V36, gates={POD_LEVEL: True})) == "checkpoint is corrupted"


@pytest.mark.parametrize("member", ['{"0":null}', '{"0":{"memoryMap":{"memory":null}}}'])
def test_a_node_or_table_that_is_null_is_refused_instead_of_crashing(member: str) -> None:
    file = f'{{"policyName":"Static","machineState":{member},"checksum":0}}'
    assert refusal(file, V36) == "checkpoint is corrupted"


def test_numbers_beyond_their_type_are_refused() -> None:
    file = (
        '{"policyName":"Static","entries":{"p":{"c":[{"size":18446744073709551616}]}},"checksum":0}'
    )
    assert refusal(file, V36) == (
        "json: cannot unmarshal number 18446744073709551616 into Go struct field "
        "MemoryManagerCheckpointV1.entries.p.c.0.size of type uint64"
    )
