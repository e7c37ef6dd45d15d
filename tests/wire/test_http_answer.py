"""Answers of an HTTP server, in pieces of any size."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.core.errors import WireError
from numalign.wire.http_answer import HEAD_BYTES_MAX, AnswerReader

PLAIN = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\nhello world"
)
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"6\r\nhello \r\n5;note=x\r\nworld\r\n0\r\nTrailer: 1\r\n\r\n"
)
EARLY = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def read(data: bytes, cuts=()) -> tuple[AnswerReader, bytes]:
    reader = AnswerReader()
    edges = [0, *sorted(set(cuts)), len(data)]
    body = b"".join(reader.feed(data[a:b]) for a, b in itertools.pairwise(edges) if a < b)
    return reader, body


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, EARLY])
@given(cuts=st.lists(st.integers(1, 100), max_size=12))
def test_the_body_is_the_same_however_the_answer_is_cut(data, cuts):
    reader, body = read(data, [cut for cut in cuts if cut < len(data)])
    assert body == b"hello world"
    assert reader.is_complete
    assert reader.head.keeps_open


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, EARLY])
def test_an_answer_is_complete_with_its_last_byte_and_not_before(data):
    for end in range(1, len(data)):
        reader, _ = read(data[:end])
        assert not reader.is_complete
        with pytest.raises(WireError, match="in the middle of an answer"):
            reader.end()
    assert read(data)[0].is_complete


def test_status_and_headers_are_read():
    reader, _ = read(b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n")
    assert reader.head.status == 429
    assert reader.head.header(b"retry-after") == "3"
    assert reader.head.header(b"absent") == ""
    assert reader.is_complete


def test_without_a_length_the_body_ends_with_the_connection():
    reader, body = read(b"HTTP/1.0 200 OK\r\n\r\nall of it")
    assert (body, reader.is_complete, reader.head.keeps_open) == (b"all of it", False, False)
    reader.end()
    assert reader.is_complete


def test_a_server_that_closes_is_taken_at_its_word():
    reader, _ = read(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert not reader.head.keeps_open


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body(status):
    reader, body = read(b"HTTP/1.1 %d None\r\n\r\n" % status)
    assert (body, reader.is_complete, reader.head.keeps_open) == (b"", True, True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n Folded: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x10\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n",
        CHUNKED + b"more",
        PLAIN + b"more",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(WireError, match="found"):
        read(data)
