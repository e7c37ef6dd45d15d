"""The PNG has the size of the SVG and shows its text without any font of the system."""

import re
import struct
import zlib

import pytest

from numalign.apps.render import png, svg
from numalign.core.machine.examples.catalogue import EXAMPLES

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def header(data: bytes) -> tuple[int, int]:
    assert data.startswith(SIGNATURE)
    assert data[12:16] == b"IHDR"
    return struct.unpack(">II", data[16:24])


def pixels(data: bytes) -> bytes:
    """The filtered pixel bytes, joined from all IDAT chunks."""
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    return zlib.decompress(packed)


@pytest.mark.parametrize("name", ["vm-2cpu", "gb200"])
def test_the_picture_has_twice_the_size_of_the_svg(name):
    text = svg.render(EXAMPLES[name].machine())
    w, h = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', text).groups())
    assert header(png.from_svg(text)) == (2 * w, 2 * h)


def test_the_picture_is_not_blank():
    data = png.render(EXAMPLES["vm-2cpu"].machine())
    assert len(set(pixels(data))) > 100


def test_text_is_drawn_without_fonts_of_the_system():
    # from_svg never looks for fonts of the system, so this is what a bare host shows.
    text = svg.render(EXAMPLES["vm-2cpu"].machine())
    without = re.sub(r"<text.*?</text>", "", text)
    assert without != text
    more = len(png.from_svg(text, scale=1)) - len(png.from_svg(without, scale=1))
    assert more > 5_000, "letters take room in a file"


def test_the_same_machine_gives_the_same_picture():
    machine = EXAMPLES["vm-2cpu"].machine()
    assert png.render(machine) == png.render(machine)
