"""The recorded vectors that lie beside the tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent / "vectors"


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file such as ``unit/quantity``."""
    with gzip.open(ROOT / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
