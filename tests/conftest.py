"""What all tests share: the watchdog, and a place for sockets."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests.sockets import short_directory

pytest_plugins = ["tests.watchdog"]


def pytest_configure() -> None:
    # A background job of a shell ignores Ctrl-C, one of nohup the end of its terminal, and so would
    # all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """As ``tmp_path``, with a path that is short enough for sockets."""
    with short_directory() as directory:
        yield directory


@pytest.fixture(autouse=True)
def default_logs() -> Iterator[None]:
    """A command sets up logging for its process, with the stderr of that moment."""
    yield
    structlog.reset_defaults()
