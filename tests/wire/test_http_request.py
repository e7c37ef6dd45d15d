"""Requests in their plainest form, and everything else, which is not looked at."""

import pytest

from numalign.wire.http_request import HEAD_BYTES_MAX, PlainHead, plain_head

PLAIN = b"POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"


def test_a_plain_request_is_read():
    assert plain_head(PLAIN) == PlainHead(
        "/scheduler/filter", {b"host": b"localhost", b"content-length": b"4"}, 71, 75
    )
    assert PLAIN[71:75] == b"body"


def test_clients_may_say_what_goes_without_saying():
    kept = PLAIN.replace(b"Host:", b"Connection: Keep-Alive\r\nHost:")
    assert plain_head(kept) is not None


def test_a_body_may_come_later():
    found = plain_head(PLAIN[:71])
    assert found is not None
    assert (found.begin, found.end) == (71, 75)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\r\n\r\nbody", b"\r\n"),  # the head is not whole
        (b"POST", b"GET"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b" HTTP/1.1", b""),
        (b"/scheduler", b"http://localhost/scheduler"),
        (b"/scheduler", b"/sch\xc3\xa9duler"),
        (b"/scheduler/filter", b"/scheduler /filter"),
        (b"Content-Length: 4", b"Accept: text/plain"),
        (b"Content-Length: 4", b"Content-Length: 4\r\ncontent-length: 4"),
        (b"Content-Length: 4", b"Content-Length: -4"),
        (b"Content-Length: 4", b"Content-Length: 4, 4"),
        (b"Content-Length: 4", b"Content-Length: 0000000004"),
        (b"Content-Length: 4", b"Content-Length : 4"),
        (b"Content-Length: 4", b"Content-Length: 4\r\n folded"),
        (b"Content-Length: 4", b"Content-Length: 4\r\nTransfer-Encoding: chunked"),
        (b"Content-Length: 4", b"Content-Length: 4\r\nExpect: 100-continue"),
        (b"Content-Length: 4", b"Content-Length: 4\r\nConnection: close"),
        (b"Content-Length: 4", b"Content-Length: 4\r\nUpgrade: websocket"),
        (b"localhost", b"l" * HEAD_BYTES_MAX),
    ],
)
def test_others_are_left_to_a_general_library(old: bytes, new: bytes):
    assert old in PLAIN
    assert plain_head(PLAIN.replace(old, new)) is None
