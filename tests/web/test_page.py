"""The page as it is served: what is in it agrees with the rest of the program."""

import re

from numalign.apps.agent import notes
from numalign.web.page import HOST, rendered, scripts_of


def test_it_looks_again_after_every_event_that_there_is():
    [text] = re.findall(r"const EVENTS = \[(.*?)\]", HOST.text, re.DOTALL)
    kinds = [one for one in vars(notes).values() if isinstance(one, type)]
    names = {kind.NAME for kind in kinds if hasattr(kind, "NAME")}
    assert set(re.findall(r"'(\w+)'", text)) == names | {"host_changed"}


def test_it_has_no_handlers_and_sets_no_html():
    assert not re.search(r"\son\w+\s*=\s*\"", HOST.text)
    assert not re.search(r"\sstyle\s*=\s*\"", HOST.text)
    html = ("innerHTML", "outerHTML", "insertAdjacent", "document.write")
    for word in (*html, "eval(", "new Function"):
        assert word not in HOST.text


def test_its_addresses_are_relative_so_that_it_works_below_any_path():
    script = "".join(scripts_of("host"))
    asked = re.findall(r"(?:ask|load|EventSource)\(\s*[`']([^`'?$]*)", script)
    assert {"node", "pods", "readyz", "events", "admission", "capacity"} <= set(asked)
    assert not [one for one in asked if one.startswith("/")]


def test_the_policy_names_the_very_style_and_script():
    found = rendered("<style>/*STYLE*/</style><script>/*SCRIPT*/</script>", ["a{}", "b{}"], ["1;"])
    assert found.text == "<style>a{}b{}</style><script>'use strict';\n1;</script>"
    assert rendered("", ["a{}b{}"], ["1;"]).policy == found.policy
    assert rendered("", ["a{}"], ["1;"]).policy != found.policy


def test_each_part_of_it_has_one_subject_and_is_small():
    for text in scripts_of("host"):
        assert text.startswith("// ") and text.count("\n") < 300
