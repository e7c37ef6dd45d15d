"""What the README and docs tell people to type can be typed, and their links lead somewhere."""

from __future__ import annotations

import json
import re

import pytest
import typer
import yaml
from tests.docs.blocks import PAGES, anchors, blocks, commands, links
from tests.docs.shown import matches, run, shown
from tests.paths import CHECKOUT

from numalign.cli.app import load
from numalign.cli.commands import GROUPS

ENTRIES = {entry.name: entry for _, entries in GROUPS for entry in entries}
IDS = [str(page.relative_to(CHECKOUT)) for page in PAGES]
SYNOPSIS = re.compile(r"[\[\]{}…]|\.\.\.")  # a form, not a line to be typed


def fault(words):
    """What is wrong with a command line of ours, without running it."""
    if not words or words[0] in {"--help", "-h", "--version"}:
        return None
    name, *rest = words
    if name not in ENTRIES:
        return f"no command {name}" if name.isalpha() and name.islower() else None
    if "--help" in rest or "-h" in rest:
        return None
    command = load(ENTRIES[name])
    try:
        context = command.make_context(name, rest, obj=None)
        if hasattr(command, "commands") and not (set(command.commands) & set(rest)):
            return f"no sub-command in {rest}"
        context.close()
    except (typer.TyperException, typer.Exit) as error:
        return str(getattr(error, "message", "") or error)
    return None


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_can_be_typed_as_it_stands(page):
    wrong = {}
    for block in blocks(page):
        if block.language == "text":  # help texts and output
            continue
        for words in commands(block, "numalign", "kubectl"):
            own = words[1:]
            if words[0] == "kubectl":
                if own[:1] != ["numa"]:
                    continue
                own = own[1:]
            if any(SYNOPSIS.search(word) and not word.startswith("-o") for word in own):
                continue
            if (found := fault(own)) is not None:
                wrong[block.where, " ".join(words)] = found
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_make_targets_and_modules_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (CHECKOUT / "Makefile").read_text(), re.M))
    for block in blocks(page):
        for words in commands(block, "make"):
            assert {w for w in words[1:] if re.fullmatch(r"[a-z0-9-]+", w)} <= targets, block.where
        for words in commands(block, "python", "python3"):
            if "-m" in words:
                module = words[words.index("-m") + 1].split(".")
                if module[0] in {"tests", "bench", "numalign"}:
                    top = CHECKOUT / "src" if module[0] == "numalign" else CHECKOUT
                    path = top.joinpath(*module)
                    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_blocks_of_yaml_and_json_can_be_read(page):
    for block in blocks(page):
        if block.language in {"yaml", "yml"}:
            assert list(yaml.safe_load_all(block.text)), block.where
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_leads_somewhere(page):
    for target in links(page):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(found), f"{target}: no such heading"


# What is on run.md needs an agent; tests/apps/agent/test_run_process.py runs such lines.
WITH_PROMPTS = [page for page in PAGES if any(shown(page)) and page.name != "run.md"]


@pytest.mark.parametrize("page", WITH_PROMPTS, ids=lambda page: page.name)
def test_what_is_shown_at_a_prompt_is_what_is_printed(page, tmp_path):
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    for one in shown(page):
        printed = run(one, tmp_path)
        assert printed is None or matches(one.output, printed), f"{one.where}: {printed}"
