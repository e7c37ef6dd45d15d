"""Whose a path is: each component decides, and a trap anywhere on the way is seen."""

import os

import pytest

from numalign.adapters.local.paths import read_token, token_of
from numalign.adapters.local.private import check_contents, check_private, make_private
from numalign.core.errors import ConfigError
from numalign.web.serving.listeners import unix_listener

STRANGER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def own(tmp_path):
    """A directory of ours below a path that passes."""
    check_private(tmp_path)
    return tmp_path


def refusal(path):
    with pytest.raises(ConfigError) as found:
        check_private(path)
    return str(found.value)


def test_a_new_directory_is_for_its_owner_only_whatever_the_umask(own):
    before = os.umask(0)
    try:
        make_private(own / "a" / "b")
    finally:
        os.umask(before)
    assert [p.stat().st_mode & 0o777 for p in (own / "a", own / "a" / "b")] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o722, 0o1777])
def test_a_directory_that_others_may_write_is_refused(own, mode):
    (own / "s").mkdir()
    (own / "s").chmod(mode)
    said = refusal(own / "s")
    assert said.startswith(f"{own / 's'}: found mode {mode:04o}")
    assert "--state-dir" in said


def test_a_component_that_others_may_write_is_refused_too(own):
    (own / "open" / "s").mkdir(parents=True)
    (own / "open").chmod(0o777)
    assert refusal(own / "open" / "s").startswith(f"{own / 'open'}: found mode 0777")


def test_a_sticky_directory_may_stand_above_one_of_ours(own):
    (own / "tmp").mkdir()
    (own / "tmp").chmod(0o1777)
    make_private(own / "tmp" / "s")
    check_private(own / "tmp" / "s")


@needs_root
def test_what_another_user_made_first_in_a_sticky_directory_is_refused(own):
    (own / "tmp" / "s").mkdir(parents=True)
    (own / "tmp").chmod(0o1777)
    os.chown(own / "tmp" / "s", STRANGER, STRANGER)
    with pytest.raises(ConfigError, match=r"found the owner nobody \(uid 65534\)"):
        make_private(own / "tmp" / "s")


@needs_root
def test_a_link_of_another_user_is_refused_even_when_it_leads_to_a_place_of_ours(own):
    (own / "good").mkdir()
    (own / "s").symlink_to(own / "good")
    check_private(own / "s")
    os.lchown(own / "s", STRANGER, STRANGER)
    assert "uid 65534" in refusal(own / "s")


def test_a_link_of_ours_is_followed_to_a_trap(own):
    (own / "open").mkdir()
    (own / "open").chmod(0o777)
    (own / "s").symlink_to("../" + own.name + "/open")
    assert refusal(own / "s").startswith(f"{own / 'open'}: found mode 0777")


def test_a_loop_of_links_is_told(own):
    (own / "a").symlink_to("b")
    (own / "b").symlink_to("a")
    assert "loop of links" in refusal(own / "a")


@needs_root
@pytest.mark.parametrize("name", ["api-token", "supervisor.cpython-311.pyc", "runs/p/c.0/run.json"])
def test_a_planted_file_in_a_directory_of_ours_is_refused(own, name):
    planted = own / "s" / name
    planted.parent.mkdir(parents=True)
    planted.write_text("x")
    planted.chmod(0o600)
    check_contents(own / "s", ("*", "runs/*/*/*.json"))
    os.chown(planted, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="uid 65534"):
        check_contents(own / "s", ("*", "runs/*/*/*.json"))


@needs_root
def test_the_token_of_another_user_is_no_token(own):
    token_of(own)
    os.chown(own / "api-token", STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="uid 65534"):
        read_token(own / "api-token")


@needs_root
def test_no_socket_is_made_where_another_user_can_replace_it(own):
    (own / "s").mkdir()
    os.chown(own / "s", STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="uid 65534"), unix_listener(own / "s" / "agent.sock"):
        pass
