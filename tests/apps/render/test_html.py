"""The page is whole in itself and safe to open."""

from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.apps.render import html
from numalign.core.machine.examples.catalogue import EXAMPLES

VOID = {"meta", "wbr", "rect"}


class Page(HTMLParser):
    """Collects the tags and texts of a page, and checks that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_has_the_picture_the_nodes_and_the_distances():
    page = Page(html.render(EXAMPLES["gb200"].machine()))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("svg") == 1
    assert tags.count("table") == 2
    assert page.open == []
    assert {"NUMA nodes", "Distances", "10-17", "10/11"} <= set(page.texts)


def test_the_page_loads_nothing_and_runs_nothing():
    page = Page(html.render(EXAMPLES["xeon-2s"].machine()))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert not any(name in attrs for _, attrs in page.tags for name in ("src", "href", "onload"))


def test_the_page_follows_the_system_to_dark():
    assert "prefers-color-scheme: dark" in html.render(EXAMPLES["vm-2cpu"].machine())


def test_names_cannot_become_tags():
    machine = replace(
        EXAMPLES["vm-2cpu"].machine(), name="<script>alert(1)</script>", notes=("<img src=x>",)
    )
    tags = {tag for tag, _ in Page(html.render(machine)).tags}
    assert not {"script", "img"} & tags


@settings(max_examples=15, deadline=None)
@given(machines())
def test_any_machine_has_a_page_with_closed_tags(machine):
    assert Page(html.render(machine)).open == []
