"""The recorded vectors that lie beside the tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from tests.paths import VECTORS

ROOT = VECTORS


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file such as ``unit/quantity``."""
    with gzip.open(ROOT / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
