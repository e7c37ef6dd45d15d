"""The pages about the command line say what it does."""

import re
from pathlib import Path

import pytest
from tests.cli.reference import PAGE, page

from numalign.apps.render import svg
from numalign.cli.commands import GROUPS
from numalign.cli.main import FAILED, INTERRUPTED, OK, PIPE_CLOSED, USAGE
from numalign.core.machine.examples.catalogue import EXAMPLES

IMAGES = sorted(PAGE.parents[1].joinpath("images").glob("topology-*.svg"))
COMMANDS = [entry.name for _, entries in GROUPS for entry in entries]


def test_the_reference_is_what_the_commands_say():
    assert PAGE.read_text() == page(), "run python -m tests.cli.reference"


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_reference_is_what_help_prints(name, numalign):
    help_text = numalign(*name.split(), "--help", COLUMNS="80").stdout.rstrip()
    assert f"```text\n{help_text}\n```" in PAGE.read_text()


def test_every_exit_code_is_explained():
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)]
    assert codes == [OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED]


def test_there_are_pictures():
    assert len(IMAGES) >= 3


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_pictures_in_the_docs_are_as_drawn_now(path: Path):
    # To draw it anew: numalign topology -m NAME --output-file docs/images/topology-NAME.svg
    name = path.stem.removeprefix("topology-")
    assert path.read_text() == svg.render(EXAMPLES[name].machine())
