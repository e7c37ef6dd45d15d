"""The way from ``numalign run`` to the agent: one small HTTP exchange over its unix socket.

Made by hand, since a command's start waits for it: an HTTP library takes longer to load than the
agent to decide.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from typing import Any, Final

from numalign.core.errors import PeerError

SECONDS_MAX: Final = 60.0  # an answer may wait for a device plugin
ANSWER_BYTES_MAX: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class RunAnswer:
    status: int
    value: dict[str, Any]


class AgentAwayError(Exception):
    """The agent went away in the middle, or is not there: to be asked again."""


def process() -> dict[str, int | str]:
    """What tells this process from all others, now and later."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - quick to load
        start = int(file.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        return {"pid": os.getpid(), "start": start, "boot": file.read().strip()}


def ask(path: str, method: str, where: str, body: object = None) -> RunAnswer:
    """What the agent answers; AgentAwayError if it does not, PeerError if that is no answer."""
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {where} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(SECONDS_MAX)
        try:
            line.connect(path)
            line.sendall(head.encode() + data)
            answer = _read(line)
        except PermissionError as exc:
            raise PeerError(
                f"{path}: this user may not use the socket; the agent's owner may."
            ) from exc
        except TimeoutError as exc:
            text = f"the agent did not answer within {SECONDS_MAX:g} seconds"
            raise PeerError(f"{path}: {text}", retry=True) from exc
        except OSError as exc:
            raise AgentAwayError(str(exc)) from exc
    return _decoded(answer, path)


def _read(line: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := line.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            break
    return b"".join(parts)


def _decoded(answer: bytes, path: str) -> RunAnswer:
    if not answer:
        raise AgentAwayError("no answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    try:
        status, value = int(words[1]), json.loads(body)
    except (ValueError, IndexError) as exc:
        raise PeerError(f"{path}: the answer is no JSON; is this the agent?") from exc
    if not isinstance(value, dict):
        raise PeerError(f"{path}: found no object in the answer; is this the agent?")
    return RunAnswer(status, value)
