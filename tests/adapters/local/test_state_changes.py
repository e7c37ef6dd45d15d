"""Noticing that state files were written."""

from __future__ import annotations

import pytest

from numalign.adapters.local.state_changes import FILES, StateChanges
from numalign.adapters.local.state_files import StateDirectory


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_change_is_noticed_once(tmp_path, name):
    path = tmp_path / name
    files = StateDirectory(path.parent)
    files.prepare()
    changes = StateChanges(tmp_path)
    assert not changes.changed()
    for content in (b"one", b"two"):  # made, then replaced by another file of the same size
        files.write(path.name, content)
        assert changes.changed()
        assert not changes.changed()
    files.remove(path.name)
    assert changes.changed()


def test_other_files_and_a_missing_directory_are_nothing(tmp_path):
    changes = StateChanges(tmp_path / "missing")
    assert not changes.changed()
    changes = StateChanges(tmp_path)
    (tmp_path / "pods").touch()
    assert not changes.changed()
