"""The page about the API says what the API says about itself."""

import re

from tests.web.in_memory_agent import InMemoryAgent
from tests.web.reference import HEAD, PAGE, page

from numalign.adapters.local.descriptors import SPARE_MAX
from numalign.web.api import Api
from numalign.web.application import application
from numalign.web.openapi import document
from numalign.web.requests import Access
from numalign.web.serving.budgets import WAIT_SECONDS_MAX
from numalign.web.serving.limits import Limits


def test_the_page_is_what_the_document_gives():
    assert PAGE.read_text() == page(), "run python -m tests.web.reference"


def test_every_route_of_the_application_is_on_the_page(tmp_path):
    agent = InMemoryAgent(tmp_path)
    app = application(Api(agent, metrics=agent.metrics), Access(trusted=True))
    text = PAGE.read_text()
    for route in app.routes:
        for method in route.methods - {"HEAD"}:
            assert f"| `{method} {route.path}`" in text
    assert len(re.findall(r"^\| `[A-Z]+ /", text, re.M)) == sum(
        len(r.methods - {"HEAD"}) for r in app.routes
    )


def test_the_limits_on_the_page_are_the_real_ones():
    limits = Limits()
    for text in [
        f"{limits.body_bytes_max >> 20} MiB, within {limits.body_seconds_max:g} s",
        f"{limits.header_bytes_max >> 10} KiB, within {limits.header_seconds_max:g} s",
        f"{limits.changes_per_second:g} a second, {limits.changes_burst:g} at once",
        f"| streams (`/events`, logs) | {limits.streams_max} for each socket |",
        f"| {limits.costly_max} at once for each socket | they wait, at most {WAIT_SECONDS_MAX:g}",
        f"| connections | {limits.connections_max} for each socket, {limits.per_peer_max} from one",
        f"| descriptors | {SPARE_MAX} (or a quarter)",
        f"| a client that reads nothing | {limits.write_seconds_max:g} s |",
    ]:
        assert text in HEAD


def test_every_reference_in_the_document_leads_somewhere():
    found = document()
    names = set(re.findall(r"#/components/schemas/(\w+)", str(found)))
    assert names <= found["components"]["schemas"].keys()
    assert found["components"]["schemas"].keys() <= names
