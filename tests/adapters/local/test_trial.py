"""Commands find the agent in its usual place, else the one that is tried out."""

import socket
from contextlib import contextmanager

import pytest

from numalign.adapters.local import paths
from numalign.adapters.local.trial import agent_socket, noted


@contextmanager
def listening(path):
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        try:
            yield path
        finally:
            path.unlink()


@pytest.fixture
def usual(tmp_path):
    return tmp_path / "usual"


def test_a_trial_is_found_while_it_runs(usual, tmp_path):
    with listening(tmp_path / "try" / "agent.sock") as trial:
        with noted(trial, usual):
            assert agent_socket(usual) == (trial, True)
        assert agent_socket(usual) == (paths.socket_path(usual), False)
    assert list(usual.iterdir()) == []


def test_the_agent_of_the_host_comes_first(usual, tmp_path):
    own = paths.socket_path(usual)
    with listening(tmp_path / "try" / "agent.sock") as trial, listening(own), noted(trial, usual):
        assert agent_socket(usual) == (own, False)


def test_a_trial_that_was_killed_is_passed_over(usual, tmp_path):
    with noted(tmp_path / "gone.sock", usual):
        assert agent_socket(usual) == (paths.socket_path(usual), False)


def test_the_note_of_a_later_trial_stays(usual, tmp_path):
    with listening(tmp_path / "second" / "agent.sock") as second:
        later = noted(second, usual)
        with noted(tmp_path / "first.sock", usual):
            later.__enter__()
        assert agent_socket(usual) == (second, True)
        later.__exit__(None, None, None)


def test_a_note_that_others_could_have_written_is_not_believed(usual, tmp_path):
    with listening(tmp_path / "try" / "agent.sock") as trial, noted(trial, usual):
        (usual / "trial-socket").chmod(0o666)
        assert agent_socket(usual) == (paths.socket_path(usual), False)


def test_where_nothing_can_be_noted_the_trial_runs_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    with noted(tmp_path / "agent.sock", tmp_path / "file"):
        pass
