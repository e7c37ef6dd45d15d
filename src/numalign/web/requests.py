"""What comes into the API: who asks, and what a query or a body says. Refusals are problems."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from numalign.apps.agent.model import AgentPod
from numalign.core.asker import Asker
from numalign.core.errors import WireError
from numalign.web.answers import JSON_TYPE, ProblemError
from numalign.web.serving.budgets import Budget
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.workloads import Expansion, expanded

TAIL_LINES_MAX: Final = 1_000_000
DECISIONS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 253
TEXT_CHARS_MAX: Final = 10_000  # of what is wrong with a manifest
# A uid becomes part of paths, so less is allowed than Kubernetes does.
_UID: Final = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}", re.ASCII)
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?", re.ASCII)
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # those of Kubernetes' generated names
_TRUE: Final = frozenset({"", "1", "true"})
_FALSE: Final = frozenset({"0", "false"})


@dataclass(frozen=True, slots=True)
class Access:
    trusted: bool  # whoever can connect may change things
    token: str = ""
    hosts: frozenset[str] | None = None  # names in the Host header; None: any
    read_token: str = ""  # allows to look where that needs a token
    is_remote: bool = False  # other hosts can connect, so that looking needs a token too

    def allows(self, request: Request) -> bool:
        """Whether somebody may do and see everything, as the owner does."""
        return self.trusted or _is_bearer_of(request, self.token)

    def check_reader(self, request: Request) -> None:
        """Refuses somebody who may not even look."""
        if self.is_remote and not (self.allows(request) or _is_bearer_of(request, self.read_token)):
            raise _unauthorized(
                "from other hosts this needs the header 'Authorization: Bearer TOKEN' with the "
                "token from read-token in the agent's state directory"
            )

    def check_sender(self, request: Request) -> None:
        """Refuses what a web page can have a browser send: here only programs ask, with JSON."""
        self.check_host(request)
        if (origin := request.headers.get("origin")) is not None:
            error = f"found a request from the web page {origin[:100]!r}, expected none from a page"
            raise ProblemError(403, "Forbidden", error)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            error = f"content-type: found {kind[:100]!r}, expected {JSON_TYPE}"
            raise ProblemError(415, "UnsupportedMediaType", error)

    def check_host(self, request: Request) -> None:
        """Refuses a page of another site that had its name resolved to this host."""
        server = request.scope.get("server") or ("",)
        host = request.headers.get("host", "")
        if not self.is_own_name(host, server[0]):
            expected = "one of this host (--allowed-host adds names)"
            raise ProblemError(
                421,
                "MisdirectedRequest",
                f"found the host name {host[:100]!r}, "
                f"expected {expected if self.is_remote else 'localhost'}",
            )

    def is_own_name(self, host: str, server: str) -> bool:
        """Whether a Host header names us, who were found at this address."""
        if self.hosts is None:
            return True
        name = host_name(host)
        own = f"[{server}]" if ":" in server else server
        return name in self.hosts or (self.is_remote and name == own)


def host_name(header: str) -> str | None:
    """The name in a Host header, in small letters; None if it is none, whatever it begins with."""
    found = _HOST.fullmatch(header)
    return found["name"].lower() if found else None


def _is_bearer_of(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


def access_of(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access), "application() sets it"
    return access


def budget_of(request: Request) -> Budget:
    budget = request.app.state.budget
    assert isinstance(budget, Budget), "application() sets it"
    return budget


def asker_of(request: Request) -> Asker | None:
    """Who asks: the peer of the unix socket; who has the agent's token is its own user."""
    found = getattr(request.state, "asker", None)
    assert isinstance(found, Asker | None), "the server sets it"
    return found


def require(request: Request) -> None:
    """Refuses a request that may not change things."""
    if not access_of(request).allows(request):
        raise _unauthorized(
            "this needs the unix socket, or the header 'Authorization: Bearer TOKEN' with the "
            "token from the agent's state directory"
        )


def _unauthorized(error: str) -> ProblemError:
    return ProblemError(401, "Unauthorized", error, headers={"www-authenticate": "Bearer"})


def container_named(request: Request, known: AgentPod) -> str:
    """The container of a pod that a request asks for, by default its only one."""
    names = [container.name for container in known.pod.in_order]
    asked = request.query_params.get("container")
    if asked is None and len(known.pod.containers) == 1:
        return known.pod.containers[0].name
    if asked not in names:
        found = "no container" if asked is None else f"container {asked[:100]!r}"
        raise ProblemError(400, "BadRequest", f"found {found}, expected one of {', '.join(names)}")
    return asked


def flag(request: Request, name: str, default: str = "false") -> bool:
    text = request.query_params.get(name, default).lower()
    if text not in _TRUE | _FALSE:
        raise ProblemError(
            400, "BadRequest", f"{name}: found {text[:100]!r}, expected true or false"
        )
    return text in _TRUE


def number(request: Request, name: str, least: int, most: int) -> int | None:
    """A number in the query; None if it is not there."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        error = f"{name}: found {text[:100]!r}, expected a number from {least} to {most}"
        raise ProblemError(400, "BadRequest", error)
    return int(text)


async def body_of(
    request: Request, bytes_max: int, seconds_max: float, too_large: Callable[[str], ProblemError]
) -> bytes:
    """The body of a request, within limits of size and time."""
    announced = request.headers.get("content-length", "0")[:20]
    if announced.isdecimal() and int(announced) > bytes_max:
        raise too_large(f"{announced} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds_max):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise too_large(f"more than {bytes_max} bytes")
                parts.append(part)
    except TimeoutError as exc:
        error = f"the body did not come within {seconds_max:g} seconds"
        raise ProblemError(408, "RequestTimeout", error) from exc
    return b"".join(parts)


def manifests_of(body: bytes) -> Expansion:
    """The pods and workloads of a body."""
    try:
        return expanded(body, source="request").required()
    except WireError as error:
        text = str(error)
        shown = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]} ..."
        raise ProblemError(400, "BadRequest", shown) from error


def identify(record: PodRecord) -> str:
    """Gives a pod the name that it may lack, and its uid; ProblemError if that leads elsewhere."""
    metadata = record.metadata
    if not metadata.name:
        suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
        metadata.name = metadata.generateName[: NAME_CHARS_MAX - 5] + suffix
    if not metadata.uid:
        return str(uuid.uuid4())
    if not _UID.fullmatch(metadata.uid):
        error_text = (
            f"request: metadata.uid: found {metadata.uid[:100]!r}, "
            "expected letters, digits, '-', '_' and '.'"
        )
        raise ProblemError(400, "BadRequest", error_text)
    return metadata.uid
