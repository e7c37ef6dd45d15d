"""A log whose reader is slow, gone or back again."""

import os
import time

from numalign.adapters.daemon.log_stream import LogStream


def told(count):
    return f"lost {count}\n"


def until(fact):
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


def test_lines_come_in_their_order_and_whole():
    reader, writer = os.pipe()
    stream = LogStream(writer, told)
    for number in range(50):
        stream.write(f"{number}\n")
    stream.drain(10)
    assert os.read(reader, 65536).decode().split() == [str(number) for number in range(50)]
    assert stream.dropped == 0
    os.close(reader)
    os.close(writer)


def test_a_reader_that_stops_loses_lines_and_learns_how_many_when_it_is_back():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    try:
        while True:
            filled += os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    stream = LogStream(writer, told, lines_max=3)
    start = time.monotonic()
    stream.write("first\n")
    until(lambda: not stream._waiting)  # the thread has it, and hangs
    for number in range(10):
        stream.write(f"{number}\n")
    stream.drain(0.01)
    assert time.monotonic() - start < 5
    assert stream.dropped == 7
    found = b""
    while b"2\n" not in found.lstrip(b"x"):
        found += os.read(reader, 65536)
    assert found.lstrip(b"x").decode() == "first\nlost 7\n0\n1\n2\n"
    os.close(reader)
    os.close(writer)


def test_a_reader_that_is_gone_costs_lines_and_nothing_else():
    reader, writer = os.pipe()
    os.close(reader)
    stream = LogStream(writer, told)
    stream.write("lost\n")
    until(lambda: stream.dropped == 1)
    os.close(writer)


def test_text_that_is_none_is_written_with_its_codes():
    reader, writer = os.pipe()
    stream = LogStream(writer, told)
    stream.write("a \ud800 b\n")
    stream.drain(10)
    assert os.read(reader, 100) == b"a \\ud800 b\n"
    os.close(reader)
    os.close(writer)
