"""PNG files of few colours: a third of the size, and nothing that an eye would miss."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Final

import numpy as np

COLOURS: Final = 256
_PIXELS: Final = """async data => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + data;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const bytes = context.getImageData(0, 0, image.width, image.height).data, parts = [];
  for (let at = 0; at < bytes.length; at += 32768)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 32768)));
  return [image.width, image.height, btoa(parts.join(''))];
}"""


def small(png: bytes, blank: Any) -> bytes:
    """The same picture with a palette; ``blank`` is any page that lets scripts of tests run."""
    width, height, data = blank.evaluate(_PIXELS, base64.b64encode(png).decode())
    pixels = np.frombuffer(base64.b64decode(data), np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    codes = pixels[:, 0] << 16 | pixels[:, 1] << 8 | pixels[:, 2]
    colours, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    parts = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    kept = np.argsort(-counts, kind="stable")[: COLOURS // 2]
    palette = parts[kept]
    while len(palette) < min(COLOURS, len(parts)):
        # Next the one that is missed most: far from all that are there, and often seen.
        far = ((parts[:, None] - palette[None]) ** 2).sum(axis=2).min(axis=1)
        palette = np.concatenate([palette, parts[[np.argmax(far * np.sqrt(counts))]]])
    nearest = ((parts[:, None] - palette[None]) ** 2).sum(axis=2).argmin(axis=1)
    rows = nearest[places].astype(np.uint8).reshape(height, width)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(raw, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
