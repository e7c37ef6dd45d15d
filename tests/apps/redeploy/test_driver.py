"""The driver of the redeploy loop: what nobody foresaw changes nothing and ends nothing."""

from numalign.apps.redeploy import events
from numalign.apps.redeploy.driver import Driver
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.apps.redeploy.model import Rules


def test_an_event_that_cannot_be_decided_leaves_the_state_as_it_was():
    driver = Driver(None, Rules(), RedeployMetrics(), is_dry_run=True)
    driver.handle(events.HostsListed(frozenset({"w1"}), 1.0))
    before = driver.state
    driver.handle(events.PodSeen(None, 2.0, holds=False))
    assert driver.state is before
    driver.handle(events.HostSeen("w2", 3.0))
    assert driver.state is not before
