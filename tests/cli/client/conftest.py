"""An agent in memory behind real sockets, and the commands that ask it."""

import json

import pytest
from tests.web.in_memory_agent import InMemoryAgent, served

from numalign.cli.main import main


@pytest.fixture
def host(tmp_path, short_path, monkeypatch):
    with served(InMemoryAgent(tmp_path), short_path) as found:
        monkeypatch.setenv("NUMALIGN_SOCKET", str(found.socket))
        monkeypatch.setenv("COLUMNS", "120")
        yield found


@pytest.fixture
def run(host, capsys):
    """Runs a command line in this process; its code, stdout and stderr."""

    def call(*args):
        code = main(args)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def write(tmp_path):
    def call(name, *values):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n---\n".join(json.dumps(value) for value in values))
        return str(path)

    return call
