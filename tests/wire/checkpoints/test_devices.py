"""``kubelet_internal_checkpoint`` in both directions, null and empty kept apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.checkpoints.states import NAMES, damage
from tests.wire.vectors import lines

from numalign.conformance import checkpoints
from numalign.core.errors import CorruptCheckpointError
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints.devices import DeviceCheckpoint, PodDevicesEntry

IDS = st.none() | st.lists(NAMES, max_size=3).map(tuple)
ENTRIES = st.builds(
    PodDevicesEntry,
    NAMES,
    NAMES,
    NAMES,
    st.none() | st.dictionaries(st.integers(-1, 12), IDS, max_size=3),
    st.none() | st.binary(max_size=8),
)
CHECKPOINTS = st.builds(
    DeviceCheckpoint,
    st.none() | st.lists(ENTRIES, max_size=3).map(tuple),
    st.none() | st.dictionaries(NAMES, IDS, max_size=3),
)
EXAMPLE = DeviceCheckpoint(
    (
        PodDevicesEntry(
            "pod-a",
            "main",
            "vendor.com/gpu",
            {1: ("gpu1",), -1: ("x",), 0: ("gpu0", "gpu2")},
            b"\n\x04\x01\xff",
        ),
    ),
    {"vendor.com/nic": (), "vendor.com/gpu": ("gpu1", "gpu0")},
)


def test_agrees_with_every_recorded_file_in_both_directions() -> None:
    found = [checkpoints.checkpoint_device(line) for line in lines("unit/checkpoint_device")]
    assert [differences for differences in found if differences] == []
    assert len(found) == 240


def test_writes_the_example_of_the_format() -> None:
    assert device_checkpoint.encode(EXAMPLE).decode() == (
        '{"Data":{"PodDeviceEntries":[{"PodUID":"pod-a","ContainerName":"main","ResourceName":'
        '"vendor.com/gpu","DeviceIDs":{"-1":["x"],"0":["gpu0","gpu2"],"1":["gpu1"]},"AllocResp":'
        '"CgQB/w=="}],"RegisteredDevices":{"vendor.com/gpu":["gpu1","gpu0"],"vendor.com/nic":[]}},'
        '"Checksum":634331409}'
    )


@pytest.mark.parametrize(
    ("checkpoint", "number"),
    [
        (DeviceCheckpoint(None, {}), 3467439661),
        (DeviceCheckpoint((), {"a/b": None}), 686998363),
    ],
)
def test_null_and_empty_have_different_checksums(checkpoint: DeviceCheckpoint, number: int) -> None:
    assert device_checkpoint.checksum(checkpoint) == number
    assert device_checkpoint.decode(device_checkpoint.encode(checkpoint)) == checkpoint


@given(CHECKPOINTS)
def test_a_checkpoint_reads_back_as_itself(checkpoint: DeviceCheckpoint) -> None:
    written = device_checkpoint.encode(checkpoint)
    assert device_checkpoint.decode(written) == checkpoint
    assert device_checkpoint.encode(device_checkpoint.decode(written)) == written


@settings(max_examples=50)
@given(st.data(), CHECKPOINTS)
def test_a_damaged_file_is_loaded_or_refused_but_nothing_else(
    data: st.DataObject, checkpoint: DeviceCheckpoint
) -> None:
    file = data.draw(damage(device_checkpoint.encode(checkpoint)))
    try:
        device_checkpoint.decode(file)
    except CorruptCheckpointError as exc:
        assert str(exc)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}}}', "checkpoint is corrupted"),
        ("", "unexpected end of JSON input"),
        (
            '{"Data":{"RegisteredDevices":{"a":5}},"Checksum":1}',
            "json: cannot unmarshal number into Go struct field Data.Data.RegisteredDevices.a "
            "of type []string",
        ),
    ],
)
def test_a_bad_file_is_refused_in_the_kubelets_words(text: str, message: str) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        device_checkpoint.decode(text.encode())
    assert str(caught.value) == message
