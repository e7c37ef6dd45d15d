"""Which agent the commands talk to, and which pod is meant."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from numalign.cli.options import optional
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.adapters.local.agent_client import AgentClient

CHANGE_FORMATS: Final = ("lines", "name", "json", "yaml")  # of commands that change pods
SOCKET_VARIABLE: Final = "NUMALIGN_SOCKET"
TOKEN_VARIABLE: Final = "NUMALIGN_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class AgentOptions:
    socket: Annotated[
        Path | None,
        optional(
            "--socket",
            metavar="PATH",
            envvar=SOCKET_VARIABLE,
            help="The agent's unix socket, if it is not in the usual state directory.",
        ),
    ] = None
    server: Annotated[
        str | None,
        optional(
            "--server",
            metavar="URL",
            help=f"Reach the agent over TCP instead. {TOKEN_VARIABLE} holds the token for changes; "
            "without it the token of this host is used, for loopback addresses only.",
        ),
    ] = None

    @property
    def url(self) -> str:
        """Where the agent is: unix:// and a path, or the URL given."""
        return self.server if self.server is not None else f"unix://{asked_socket(self.socket)}"

    def connected(self) -> AbstractContextManager[AgentClient]:
        """A client of the agent that the options name, or of the one in the usual place."""
        from numalign.adapters.local.agent_client import connected

        if self.server is None:
            return connected(self.url)
        if self.socket is not None and SOCKET_VARIABLE not in os.environ:
            raise ConfigError("found both --socket and --server, expected one of them.")
        if not self.server.startswith(("http://", "https://")):
            raise ConfigError(
                f"--server: found {self.server!r}, expected a URL such as http://HOST:PORT."
            )
        return connected(self.server, _token(self.server))


def asked_socket(given: Path | None) -> Path:
    """The socket of an option, or that of the agent of this host, or of one that is tried out."""
    from numalign.adapters.local.trial import agent_socket

    if given is not None:
        return given
    found, is_trial = agent_socket()
    if is_trial:
        print(f"note: asking the agent of 'numalign up' in {found.parent}", file=sys.stderr)
    return found


def _token(server: str) -> str | None:
    """The token for a server: the one given, or this host's own one where it stays on this host."""
    from numalign.adapters.local import paths
    from numalign.adapters.local.agent_client import is_this_host

    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return given
    if not is_this_host(server):
        return None
    path = paths.token_path(paths.state_directory())
    return paths.read_token(path) if os.access(path, os.R_OK) else None
