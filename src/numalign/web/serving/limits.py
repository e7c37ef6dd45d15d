"""What one server lets its clients have at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes_max: int = 1024 * 1024
    body_seconds_max: float = 10.0
    header_bytes_max: int = 16 * 1024
    header_seconds_max: float = 10.0
    write_seconds_max: float = 30.0  # a client that reads nothing for so long is dropped
    connections_max: int = 128  # of each socket
    per_peer_max: int = 32  # of them from one address of another host; 0: no more than all
    streams_max: int = 64  # events and logs, of each socket
    costly_max: int = 16  # long answers being made or sent, of each socket
    changes_per_second: float = 200.0
    changes_burst: float = 400.0
    ping_seconds: float = 15.0  # a quiet stream says that it lives
