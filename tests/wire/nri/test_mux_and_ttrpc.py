"""Frames and messages: what goes out fits the runtime's reader, what comes in is bounded."""

from __future__ import annotations

import struct

import pytest

from numalign.core.errors import WireError
from numalign.wire.nri import messages, mux, ttrpc


def read_whole(data: bytes, *, step: int = 1 << 20) -> list[tuple[int, ttrpc.Message]]:
    readers: dict[int, ttrpc.MessageReader] = {}
    demultiplexer = mux.Demultiplexer()
    found = []
    for start in range(0, len(data), step):
        for connection, payload in demultiplexer.feed(data[start : start + step]):
            reader = readers.setdefault(connection, ttrpc.MessageReader())
            found += [(connection, message) for message in reader.feed(payload)]
    return found


def test_the_first_call_has_the_bytes_that_runtimes_were_seen_to_take():
    payload = messages.registration("raw", "55")
    request = ttrpc.Request(1, messages.RUNTIME_SERVICE, "RegisterPlugin", payload)
    message = ttrpc.encode_request(request, timeout_nano=5_000_000_000)
    sent = mux.frames(mux.RUNTIME, message)
    assert sent[:4] == b"\0\0\0\2"
    assert sent[8:18] == struct.pack(">IIBB", len(message) - 10, 1, 1, 0)
    assert b"\x0a\x1cnri.pkg.api.v1alpha1.Runtime\x12\x0eRegisterPlugin" in sent
    assert b"\x1a\x09\x0a\x03raw\x12\x0255\x20" in sent


def test_an_empty_success_is_ten_bytes():
    assert ttrpc.encode_response(ttrpc.Response(7)) == struct.pack(">IIBB", 0, 7, 2, 0)


@pytest.mark.parametrize("size", [0, 1, 4085, 4086, 4087, 9000, 200_000])
def test_no_frame_is_longer_than_the_runtime_reads_and_none_spans_two_messages(size: int):
    first = ttrpc.encode_response(ttrpc.Response(1, b"a" * size))
    second = ttrpc.encode_response(ttrpc.Response(3, b"b"))
    sent = mux.frames(mux.PLUGIN, first) + mux.frames(mux.PLUGIN, second)
    payloads = [payload for _, payload in mux.Demultiplexer().feed(sent)]
    assert all(len(payload) <= 4096 for payload in payloads)
    assert b"".join(payloads[:-1]) == first
    assert payloads[-1] == second


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_messages_come_whole_however_the_socket_cuts_them(step: int):
    request = ttrpc.Request(5, "service", "method", b"x" * 10_000)
    answer = ttrpc.Response(9, b"", 2, "no")
    sent = mux.frames(1, ttrpc.encode_request(request)) + mux.frames(
        2, ttrpc.encode_response(answer)
    )
    assert read_whole(sent, step=step) == [(1, request), (2, answer)]


def test_a_frame_longer_than_any_message_is_refused_before_it_is_read():
    with pytest.raises(WireError, match="expected 4194314 at most"):
        list(mux.Demultiplexer().feed(struct.pack(">II", 1, (4 << 20) + 11)))


def test_a_message_longer_than_the_limit_is_refused_before_it_is_read():
    with pytest.raises(WireError, match="expected 4194304 at most"):
        list(ttrpc.MessageReader().feed(struct.pack(">IIBB", (4 << 20) + 1, 1, 1, 0)))


def test_a_message_of_another_type_is_refused():
    with pytest.raises(WireError, match="type 3"):
        list(ttrpc.MessageReader().feed(struct.pack(">IIBB", 0, 1, 3, 0)))


def test_an_answer_that_is_too_large_becomes_a_refusal_that_says_so():
    sent = ttrpc.encode_response(ttrpc.Response(1, b"x" * ((4 << 20) + 1)))
    (message,) = ttrpc.MessageReader().feed(sent)
    assert isinstance(message, ttrpc.Response)
    assert message.code == ttrpc.Code.UNKNOWN
    assert "4194304 at most" in message.message


def test_a_refusal_is_a_bounded_text_even_of_characters_that_cannot_be_sent():
    sent = ttrpc.encode_response(ttrpc.Response(1, code=2, message="\udc80" + "é" * 9000))
    (message,) = ttrpc.MessageReader().feed(sent)
    assert isinstance(message, ttrpc.Response)
    assert len(message.message) == ttrpc.ERROR_TEXT_MAX
