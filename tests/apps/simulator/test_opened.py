"""A simulated host as the agent's page shows it."""

import json
import re

from tests.apps.simulator.scenarios import scenario

from numalign.apps.simulator.moments import host_bundle, opened_host
from numalign.apps.simulator.opened import page_answers
from numalign.web.page import stored_page


def opened(at):
    found = scenario("schedulers: [totals]\n")
    return found, opened_host(found, "h-0002", at)


def test_the_page_has_what_an_agent_there_would_say():
    found, host = opened(4 * 3600)
    answers = page_answers(found, host)
    assert answers["node"]["machine"]["name"] == "h-0002"
    assert len(answers["pods"]["items"]) == len(host.host.state.pods) > 0
    own = {o["pod"] for node in answers["node"]["nodes"] for o in node["occupants"]}
    assert own == {pod["metadata"]["name"] for pod in answers["pods"]["items"]}
    assert all(p["status"]["phase"] == "Running" for p in answers["pods"]["items"])
    shapes = {room["shape"]: room["pods"] for room in answers["node"]["capacity"]}
    assert len(shapes) == 3
    assert "scheduler totals, seed 1" in answers["when"]


def test_another_moment_is_another_state():
    early, late = (opened(at)[1] for at in (3600, 5 * 3600))
    assert early.host.state.pods.keys() != late.host.state.pods.keys()
    assert early.run.now <= 3600 < late.run.now


def test_the_page_is_one_file_whose_scripts_are_known_by_their_hashes():
    found, host = opened(3600)
    answers = page_answers(found, host)
    answers["when"] = "</script><script>alert(1)</script>"
    page = stored_page(answers)
    stored = re.search(r'<script type="application/json" id="stored">(.*?)</script>', page, re.S)
    assert json.loads(stored[1]) == answers
    assert page.count("<script") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_bundle_of_a_host_is_of_the_same_moment():
    found, host = opened(3600)
    assert host_bundle(found, host).about.notes == (page_answers(found, host)["when"],)
