"""A runtime that sends garbage gets a refusal, never a traceback: 100,000 mutated frames."""

from __future__ import annotations

import random

import pytest

from numalign.core.errors import WireError
from numalign.wire.nri import messages, mux, ttrpc
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb

FRAMES = 100_000
DECODERS = (
    messages.configuration_of,
    messages.synchronization_of,
    messages.creation_of,
    messages.update_of,
    messages.pod_event_of,
    messages.state_change_of,
)


def sample_payloads() -> list[bytes]:
    pod = pb.PodSandbox(id="s", uid="u", name="p", namespace="n", annotations={"a": "b"}, pid=7)
    pod.linux.cgroup_parent = "/kubepods/podu"
    container = pb.Container(id="c", pod_sandbox_id="s", name="db", state=3)
    container.linux.resources.cpu.shares.value = 2048
    container.linux.resources.cpu.cpus = "0-3"
    found = [
        pb.ConfigureRequest(config="x", runtime_name="containerd", NRI_version="v0.12.1"),
        pb.SynchronizeRequest(pods=[pod], containers=[container, container]),
        pb.CreateContainerRequest(pod=pod, container=container),
        pb.UpdateContainerRequest(pod=pod, container=container),
        pb.StateChangeEvent(event=1, pod=pod),
    ]
    return [message.SerializeToString() for message in found]


def mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                del changed[at : at + rng.randint(1, 8)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 8))
        if not changed:
            return b"\0"
    return bytes(changed)


def taken_in(data: bytes) -> int:
    """How many messages were read, all of them as every method in turn."""
    count = 0
    decode = DECODERS[len(data) % len(DECODERS)]
    readers: dict[int, ttrpc.MessageReader] = {}
    for connection, payload in mux.Demultiplexer().feed(data):
        reader = readers.setdefault(connection, ttrpc.MessageReader())
        for message in reader.feed(payload):
            count += 1
            if isinstance(message, ttrpc.Request):
                decode(message.payload)
    return count


def test_a_hundred_thousand_mutated_frames_are_read_or_refused():
    rng = random.Random(17)
    samples = sample_payloads()
    read = refused = 0
    for number in range(FRAMES):
        data = rng.choice(samples)
        # A third each: what is inside the message, the message, and the frames.
        data = mutated(data, rng) if number % 3 == 0 else data
        data = ttrpc.encode_request(ttrpc.Request(1, "s", "m", data))
        data = mux.frames(1, mutated(data, rng) if number % 3 == 1 else data)
        data = mutated(data, rng) if number % 3 == 2 else data
        try:
            read += taken_in(data)
        except WireError:
            refused += 1
    assert read > FRAMES // 20, "the mutations break everything: they test only the first check"
    assert refused > FRAMES // 10, "the mutations break nothing"


@pytest.mark.parametrize("decode", DECODERS)
def test_random_bytes_are_a_wire_error_or_a_message(decode):
    rng = random.Random(3)
    for size in range(300):
        try:
            decode(rng.randbytes(size))
        except WireError:
            continue
