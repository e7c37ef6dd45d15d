"""The way to a running agent: HTTP over its unix socket, or over TCP."""

# ruff: noqa: PLC0415 - httpx takes long to load, and --help must not wait for it
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from numalign.core.errors import ConfigError, PeerError

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
CAPTURE_BYTES_MAX: Final = 64 * 1024 * 1024


class RefusalError(Exception):
    """The agent's no: its status code, its reason in one word, and its sentence."""

    def __init__(
        self,
        status: int,
        reason: str,
        error: str,
        pod: Mapping[str, Any] | None = None,
        changes: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.reason = reason
        self.error = error
        self.pod = pod
        self.changes = changes  # of an applied manifest

    def as_error(self, where: str) -> PeerError:
        """The same as an error that ends the command."""
        if self.status == 401:
            return PeerError(
                f"{where}: the agent wants its token for this. Set NUMALIGN_TOKEN to what is in "
                "the file api-token of its state directory, or use --socket on its host."
            )
        return PeerError(f"{where}: {self.error} ({self.reason})")


class AgentClient:
    """A connection to an agent. Every failure is a PeerError that names where it was tried."""

    def __init__(self, http: httpx.Client, where: str) -> None:
        self._http = http
        self.where = where

    def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - JSON
        return self.ask("GET", path, query=query)

    def ask(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - JSON
        """The JSON of an answer; PeerError if it is a no. Takes what ``tried`` does."""
        try:
            return self.tried(method, path, **more)
        except RefusalError as refusal:
            raise refusal.as_error(self.where) from refusal

    def tried(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
    ) -> Any:  # noqa: ANN401 - JSON
        """The JSON of an answer; RefusalError if it is a no."""
        import httpx

        try:
            answer = self._http.request(method, path, params=query, content=body)
            value = answer.json()
        except httpx.HTTPError as exc:
            raise self._unreachable(exc) from exc
        except ValueError as exc:
            raise PeerError(
                f"{self.where}: the answer to {path} is no JSON; is this the agent?"
            ) from exc
        if answer.is_success:
            return value
        raise _refusal(answer.status_code, value)

    @contextmanager
    def stream(self, path: str, **query: str | int) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer as they come, for as long as it takes."""
        import httpx
        import msgspec

        from numalign.wire.faults import DECODE_FAULTS

        limits = httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS, read=None)
        try:
            with self._http.stream("GET", path, params=query, timeout=limits) as answer:
                if not answer.is_success:
                    value = msgspec.json.decode(answer.read())
                    raise _refusal(answer.status_code, value).as_error(self.where)
                yield answer.iter_bytes()
        except httpx.HTTPError as exc:
            raise self._unreachable(exc) from exc
        except DECODE_FAULTS as exc:
            raise PeerError(f"{self.where}: the answer to {path} is no JSON") from exc

    def content(self, path: str, bytes_max: int) -> bytes:
        """The bytes of an answer that is no JSON; PeerError if they are more than they may be."""
        data = b""
        with self.stream(path) as parts:
            for part in parts:
                data += part
                if len(data) > bytes_max:
                    raise PeerError(f"{self.where}: found more than {bytes_max} bytes at {path}.")
        return data

    def _unreachable(self, exc: Exception) -> PeerError:
        import httpx

        if isinstance(exc, httpx.ConnectError):
            return _nobody(self.where)
        if isinstance(exc, httpx.TimeoutException):
            text = f"the agent did not answer within {TIMEOUT_SECONDS:g} seconds"
            return PeerError(f"{self.where}: {text}", retry=True)
        return PeerError(f"{self.where}: {exc or type(exc).__name__}", retry=True)


def _refusal(status: int, value: object) -> RefusalError:
    found = value if isinstance(value, dict) else {}
    error = str(found.get("error", f"status {status}"))
    reason = str(found.get("reason", "Unknown"))
    return RefusalError(status, reason, error, found.get("pod"), found.get("changes"))


@contextmanager
def connected(place: str, token: str | None = None) -> Iterator[AgentClient]:
    """A client of the agent at ``unix:///PATH`` or at an http or https URL."""
    import httpx

    base, path = place, None
    if place.startswith("unix://"):
        base, path = "http://localhost", place.removeprefix("unix://")
        _probe(path)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        http = httpx.Client(
            base_url=base,
            # Certificates take long to load, and only https needs them.
            transport=httpx.HTTPTransport(verify=base.startswith("https://"), uds=path),
            headers=headers,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,  # a proxy has no business between us and this host
        )
    except (httpx.InvalidURL, ValueError) as exc:
        raise ConfigError(f"found the URL {place!r}: {exc}.") from exc
    if not http.base_url.host:
        raise ConfigError(f"found the URL {place!r}, expected one such as http://127.0.0.1:8421.")
    with http:
        yield AgentClient(http, place.removeprefix("unix://"))


def is_this_host(url: str) -> bool:
    """Whether what is sent to a URL stays on this host."""
    import ipaddress

    import httpx

    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False  # another name, wherever that leads


def is_answered(place: str) -> bool:
    """Whether somebody whom we may trust answers at ``unix:///PATH``."""
    try:
        _probe(place.removeprefix("unix://"))
    except (ConfigError, PeerError):
        return False
    return True


def capture_of(place: str) -> bytes:
    with connected(place) as agent:
        return agent.content("/capture", CAPTURE_BYTES_MAX)


def _probe(path: str) -> None:
    """Connects once by hand: the words for each failure are better, and nothing is left open."""
    import os
    import socket
    from pathlib import Path

    from numalign.adapters.local.private import check_private

    if os.path.lexists(path):
        check_private(Path(path))  # a planted one would hear what is meant for the agent
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(path)
        except PermissionError as exc:
            raise PeerError(
                f"{path}: this user may not use the socket; the agent's owner may."
            ) from exc
        except OSError as exc:
            raise _nobody(path) from exc


def _nobody(where: str) -> PeerError:
    return PeerError(
        f"{where}: no agent answers there. Start one with 'numalign agent', or name another with "
        "--socket or --server.",
        retry=True,
    )
