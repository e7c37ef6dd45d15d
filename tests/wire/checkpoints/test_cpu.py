"""``cpu_manager_state`` in both directions, byte for byte, and every refusal."""

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
from tests.wire.checkpoints.states import CPU_STATES, SETTINGS, damage
from tests.wire.vectors import lines

from numalign.conformance import checkpoints
from numalign.core.errors import CorruptCheckpointError
from numalign.core.kubelet.state import CpuState
from numalign.core.settings import Settings, Version
from numalign.core.values.sets import parse_list
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints.cpu_records import Record, checksum_v2, checksum_v3

POD_LEVEL = "PodLevelResourceManagers"
V36 = Settings(version=Version.V1_36, cpu_policy="static")
V37 = Settings(version=Version.V1_37, cpu_policy="static")
TWO_PODS = CpuState(
    "static",
    parse_list("0-1,6-7"),
    {"pod-b": {"z": 1 << 4, "a": 1 << 5}, "pod-a": {"main": 0b1100}},
)


def refusal(text: str, config: Settings) -> str:
    return refusal_of(cpu_checkpoint, "CPU", text, config)


@pytest.mark.parametrize(
    ("name", "count"), [("unit/checkpoint_cpu", 480), ("1.37/checkpoint_cpu_v4", 325)]
)
def test_agrees_with_every_recorded_file_in_both_directions(name: str, count: int) -> None:
    check_recorded(name, checkpoints.checkpoint_cpu, count)


@pytest.mark.parametrize(
    ("folder", "version", "count"), [("unit", Version.V1_36, 39), ("1.37", Version.V1_37, 285)]
)
def test_loads_or_refuses_every_recorded_file_as_the_kubelet_did(
    folder: str, version: Version, count: int
) -> None:
    found = [
        (line.get("case"), checkpoints.checkpoint_restore(line, version))
        for line in lines(f"{folder}/checkpoint_restore")
    ]
    assert [pair for pair in found if pair[1]] == []
    assert len(found) == count


def test_writes_the_examples_of_the_formats() -> None:
    head = '{"policyName":"static","defaultCpuSet":"0-1,6-7","entries":'
    entries = '{"pod-a":{"main":"2-3"},"pod-b":{"a":"5","z":"4"}}'
    v2 = f'{head}{entries},"checksum":1628307142'
    assert cpu_checkpoint.encode(TWO_PODS, V36).decode() == v2 + "}"
    assert cpu_checkpoint.encode(TWO_PODS, V37).decode() == (
        f'{v2},"data":{json.dumps(head + entries + "}")},"dataChecksum":3737216281}}'
    )
    fresh = CpuState("none")
    assert cpu_checkpoint.encode(fresh, V36) == (
        b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    )
    one = CpuState("static", TWO_PODS.shared, {"pod-a": {"main": 0b1100}}, {"pod-a": 0b10000001100})
    assert cpu_checkpoint.encode(one, replace(V36, gates={POD_LEVEL: True})).endswith(
        b'"podEntries":{"pod-a":{"cpuSet":"2-3,10"}},"checksum":4222446113}'
    )


@given(CPU_STATES, SETTINGS)
def test_a_state_reads_back_as_far_as_its_gates_let_it_be_written(
    state: CpuState, config: Settings
) -> None:
    written = cpu_checkpoint.encode(state, config)
    found = cpu_checkpoint.decode(written, config)
    has_baselines = config.version is Version.V1_37 and config.gate(
        "InPlacePodVerticalScalingExclusiveCPUs"
    )
    assert found == replace(
        state,
        pod_sets=state.pod_sets if config.gate(POD_LEVEL) else {},
        baselines=state.baselines if has_baselines else {},
    )
    assert cpu_checkpoint.encode(found, config) == written


@settings(max_examples=50)
@given(st.data(), CPU_STATES, SETTINGS, SETTINGS)
def test_a_damaged_file_is_loaded_or_refused_but_nothing_else(
    data: st.DataObject, state: CpuState, writer: Settings, reader: Settings
) -> None:
    file = data.draw(damage(cpu_checkpoint.encode(state, writer)))
    check_loaded_or_refused(cpu_checkpoint, file, reader)


@given(CPU_STATES, st.integers(0, 10**6), st.integers(0, 7))
def test_a_single_turned_bit_never_changes_the_sets_unnoticed(
    state: CpuState, place: int, bit: int
) -> None:
    written = cpu_checkpoint.encode(state, V37)
    file = bytearray(written)
    file[place % len(file)] ^= 1 << bit
    expected = cpu_checkpoint.decode(written, V37)
    try:
        found = cpu_checkpoint.decode(bytes(file), V37)
    except CorruptCheckpointError:
        return
    assert found == expected


def test_the_checksum_name_of_today_is_accepted_only_without_the_gate() -> None:
    record = Record(policy="static", shared="0-3", entries={"p": {"c": "4"}})
    text = '{"policyName":"static","defaultCpuSet":"0-3","entries":{"p":{"c":"4"}},"checksum":%d}'
    file = (text % checksum_v2(record, "CPUManagerCheckpointV2")).encode()
    for config in (V36, V37):
        assert cpu_checkpoint.decode(file, config).shared == 0b1111
        with pytest.raises(CorruptCheckpointError):
            cpu_checkpoint.decode(file, replace(config, gates={POD_LEVEL: True}))
    newest = (text % checksum_v3(record, "CPUManagerCheckpointV3")).encode()
    assert cpu_checkpoint.decode(newest, V37).shared == 0b1111


def test_1_36_keeps_pod_sets_of_a_file_without_a_checksum() -> None:
    file = b'{"policyName":"static","podEntries":{"p":{"cpuSet":"1-3"}},"checksum":0}'
    gate_on = replace(V36, gates={POD_LEVEL: True})
    assert cpu_checkpoint.decode(file, gate_on).pod_sets == {"p": 0b1110}
    assert cpu_checkpoint.decode(file, V36).pod_sets == {}
    assert cpu_checkpoint.decode(file, replace(V37, gates={POD_LEVEL: True})).pod_sets == {}


def test_a_v1_file_is_migrated_by_the_containers_of_the_runtime() -> None:
    file = '{"policyName":"static","defaultCpuSet":"0","entries":{"id-1":"1","id-2":"2"}}'
    containers = {"id-1": ("pod", "a"), "id-2": ("pod", "b")}
    found = cpu_checkpoint.decode(file.encode(), V36, containers=containers)
    assert found.entries == {"pod": {"a": 0b10, "b": 0b100}}
    assert refusal(file, V36) == (
        "failed to migrate checkpoint from v1 to v2: containerID 'id-1' not found in initial "
        "containers list"
    )
    assert refusal(file, V37) == (
        "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV2.entries.id-1 "
        "of type map[string]string"
    )


# What the real 1.37 code said to files that the vectors do not reach.
PAYLOADS = [
    (
        '{"podEntries":{"p":-1}}',
        "json: cannot unmarshal number into Go value of type state.podEntryJSON",
    ),
    (
        '{"podEntries":{"p":{"cpuSet":0}}}',
        "json: cannot unmarshal number into Go struct field podEntryJSON.cpuSet of type string",
    ),
    (
        '{"podEntries":{"p":{"cpuSet":"x"}}}',
        'failed to parse cpuset: strconv.Atoi: parsing "x": invalid syntax',
    ),
    (
        '{"baselines":"1-1"}',
        "json: cannot unmarshal string into Go struct field CPUManagerCheckpointData.baselines "
        "of type map[string]map[string]state.ContainerCPUs",
    ),
]


@pytest.mark.parametrize(("payload", "message"), PAYLOADS)
def test_a_wrong_payload_is_refused_in_the_kubelets_words(payload: str, message: str) -> None:
    file = json.dumps({"data": payload, "dataChecksum": 1})
    assert refusal(file, V37) == (
        "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: "
        + message
    )


def test_1_37_wants_the_part_for_older_kubelets_well_formed() -> None:
    file = json.loads(cpu_checkpoint.encode(TWO_PODS, V37))
    file["defaultCpuSet"] = [1]
    assert refusal(json.dumps(file), V37) == (
        "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint: json: cannot "
        "unmarshal array into Go struct field CPUManagerCheckpoint.defaultCpuSet of type string"
    )
