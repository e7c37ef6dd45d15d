"""The fingerprint of the set of pods on a host: how exporter and scheduler see that they agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import xxhash

_MARK: Final = "pfp0"
_VERSION: Final = "v001"
_LENGTH_MIN: Final = 16


def pod_hash(namespace: str, name: str) -> int:
    return xxhash.xxh64_intdigest(name.encode(), xxhash.xxh64_intdigest(namespace.encode()))


def of_hashes(hashes: Iterable[int]) -> str:
    """The fingerprint of pods whose shares are known; their order does not matter."""
    joined = b"".join(share.to_bytes(8, "little") for share in sorted(hashes))
    return f"{_MARK}{_VERSION}{xxhash.xxh64_intdigest(joined):016x}"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods given as (namespace, name); the same pair twice counts twice."""
    return of_hashes(pod_hash(namespace, name) for namespace, name in pods)


def problem(text: str) -> str | None:
    """Why a text is no fingerprint that could be compared with ours; None if it is one."""
    if len(text) < _LENGTH_MIN or not text.startswith(_MARK):
        return f"found the fingerprint {text[:40]!r}, expected {_MARK}{_VERSION} and 16 hex digits"
    if text[len(_MARK) : len(_MARK + _VERSION)] != _VERSION:
        return f"found the fingerprint {text[:40]!r} of another version, expected {_VERSION}"
    return None
