"""Everything that this project raises, on one page.

NumalignError
├── ConfigError        the operator asked for something that we cannot do
├── DiscoveryError     the machine shows something unreadable or impossible
├── WireError          bytes from a peer or a file are not in the agreed form
│   └── CorruptCheckpointError
├── StartError         the managers refuse to start, with the kubelet's own words
└── PeerError          a peer did not answer or refused; says whether to try again
    ├── PostponedError a container cannot be started yet; says why, in the kubelet's words
    └── ApiError       the Kubernetes API server refused, with its code and reason

A pod that does not fit is not an error but an answer: see decisions.Rejected.
A promise broken by our own code is an AssertionError. While one pod, container, manifest or peer is
handled, it is that object's failure (``unexpected`` puts it into words), and the rest goes on.
"""

from __future__ import annotations

from typing import Final

UNEXPECTED_CHARS_MAX: Final = 300


def unexpected(error: BaseException) -> str:
    """An error that nobody foresaw, in one line for whoever looks after the object it came from."""
    found, where = error.__traceback__, ""
    while found is not None:  # the innermost frame is the last one
        where = f" ({found.tb_frame.f_code.co_filename.rpartition('/')[2]}:{found.tb_lineno})"
        found = found.tb_next
    text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
    kind = type(error).__name__
    return f"unexpected {kind}: {text[:UNEXPECTED_CHARS_MAX]}{where}; please report this as a bug"


class NumalignError(Exception):
    """Base of all our errors. Never raised as itself."""


class ConfigError(NumalignError):
    """The operator asked for something that we cannot do."""


class DiscoveryError(NumalignError):
    """A machine description that is unreadable or impossible.

    The message names the source, what was found, what was expected and what to do.
    """

    def __init__(self, source: str, found: str, expected: str, hint: str = "") -> None:
        text = f"{source}: found {found}, expected {expected}."
        super().__init__(f"{text} {hint}" if hint else text)
        self.source = source
        self.found = found
        self.expected = expected
        self.hint = hint


class WireError(NumalignError):
    """Bytes that are not in the agreed form."""


class CorruptCheckpointError(WireError):
    """A state file whose content does not match its checksum, or that cannot be read."""


class StartError(NumalignError):
    """The managers cannot be built or started; phase and text are the kubelet's."""

    def __init__(self, phase: str, text: str) -> None:
        super().__init__(text)
        self.phase = phase
        self.text = text


class PeerError(NumalignError):
    """A peer did not answer or refused."""

    def __init__(self, text: str, *, retry: bool = False) -> None:
        super().__init__(text)
        self.retry = retry


class ApiError(PeerError):
    """The Kubernetes API server refused, or (code 0) did not answer."""

    def __init__(
        self, text: str, *, code: int, reason: str = "", retry_after_seconds: float = 0.0
    ) -> None:
        super().__init__(text, retry=code in (0, 408, 429) or code >= 500)
        self.code = code
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class PostponedError(PeerError):
    """A container cannot be started yet, for no fault of its own: try again later."""

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text, retry=True)
        self.reason = reason
