"""A simulated host at a moment, as a bundle that every other command opens."""

import json

from tests.apps.simulator.scenarios import scenario

from numalign.apps.simulator.moments import host_bundle, opened_host, when
from numalign.wire import bundle


def opened(at):
    found = scenario("schedulers: [totals]\n")
    return found, opened_host(found, "h-0002", at)


def test_another_moment_is_another_state():
    early, late = (opened(at)[1] for at in (3600, 5 * 3600))
    assert early.host.state.pods.keys() != late.host.state.pods.keys()
    assert early.run.now <= 3600 < late.run.now


def test_the_bundle_of_a_host_is_of_the_same_moment():
    found, host = opened(3600)
    made = host_bundle(found, host)
    assert made.about.notes == (when(found, host),)
    assert "scheduler totals, seed 1" in when(found, host)
    own = {pod["metadata"]["uid"] for pod in json.loads(made.files[bundle.PODS])["items"]}
    assert own == set(host.host.state.pods) != set()
