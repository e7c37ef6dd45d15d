"""When the exporter looks, checks and writes."""

import pytest
from tests.core.cluster.hosts import P1, P2, known, report

from numalign.apps.exporter import events
from numalign.apps.exporter.model import ExporterState, Setup, problems
from numalign.apps.exporter.step import step
from numalign.core.errors import PeerError
from numalign.core.settings import Version

ONE, TWO = known("p1", "2"), known("p2", "1")
EMPTY, WITH_ONE, WITH_BOTH = report(), report(P1), report(P1, P2)
REQUESTS = (
    events.LookUpHost
    | events.ScanHost
    | events.AskForPods
    | events.CheckObject
    | events.WriteObject
    | events.ShowObject
)
CHECKING_LOOK = ["LookUpHost", "ScanHost"]


class Exporter:
    """The step with its state, a clock, and a cluster and host that answer at once."""

    def __init__(self, **setup):
        self.setup = Setup(host_name="worker-0", **setup)
        self.state = ExporterState()
        self.report = EMPTY
        self.pods = {}  # that the API server has, though the watch has not told of them
        self.stands = None  # the version of the object in the cluster
        self.host_uid = "node-1"
        self.fails = set()
        self.now = 100.0
        self.chance = 0.5
        self.asked = []
        self.effects = []

    def tell(self, event):
        """What was asked for until nothing is open any more."""
        asked, answers = [], [event]
        while answers:
            self.state, effects = step(self.setup, self.state, answers.pop())
            self.effects += effects
            for effect in effects:
                if isinstance(effect, REQUESTS):
                    asked.append(type(effect).__name__)
                    answers += self.answer(effect)
        return asked

    def answer(self, effect):
        if type(effect) in self.fails:
            return [events.RequestFailed(PeerError("no answer"), self.now, self.chance)]
        match effect:
            case events.LookUpHost() if not self.host_uid:
                return [events.HostMissing(self.now)]
            case events.LookUpHost():
                return [events.HostLookedUp(self.host_uid, Version.V1_37, self.now)]
            case events.ScanHost():
                return [events.HostScanned(self.report, self.now)]
            case events.AskForPods(keys):
                found = tuple(self.pods[key] for key in keys if key in self.pods)
                return [events.PodsFound(found, self.now, self.chance)]
            case events.CheckObject():
                return [events.ObjectChecked(self.stands, self.now)]
            case events.WriteObject():
                self.stands = f"v{int(self.stands[1:]) + 1 if self.stands else 1}"
                return [events.ObjectWritten(self.stands, self.now)]
        return []

    def tick(self, now=None):
        self.now = self.now if now is None else now
        return self.tell(events.Tick(self.now, self.chance))

    def wake(self):
        """Lets the time pass until it wants to be woken."""
        return self.tick(self.state.wakes_at)

    def counts(self, kind):
        return [effect.result for effect in self.effects if isinstance(effect, kind)]

    def waits(self):
        """The waits that it told of after failures."""
        return [e.retry_seconds for e in self.effects if isinstance(e, events.ReportFailure)]


def started(**setup):
    """An exporter that has published its first object, at 100.2."""
    found = Exporter(**setup)
    found.tick()
    found.tell(events.PodsListed((ONE, TWO), found.now))
    assert found.wake() == [*CHECKING_LOOK, "WriteObject"]
    return found


def test_nothing_is_looked_at_before_the_pods_are_listed():
    found = Exporter()
    assert found.tick() == []
    assert found.tick(101.0) == []
    found.tell(events.PodsListed((), 101.0))
    assert found.wake() == [*CHECKING_LOOK, "WriteObject"]
    assert found.now == 101.2


def test_without_an_api_server_nobody_waits_for_pods():
    found = Exporter(follows_pods=False, writes=False)
    found.report = WITH_BOTH
    found.tick()
    assert found.wake() == ["ScanHost", "ShowObject"]
    found.tell(events.StateFilesChanged(102.0))
    assert found.tick(103.0) == ["ScanHost", "ShowObject"]  # shown though it is the same
    assert found.counts(events.CountPublish) == []


def test_changes_within_the_time_go_together():
    found = started()
    found.effects.clear()
    assert found.tell(events.StateFilesChanged(101.0)) == []
    assert events.WakeAt(101.2) in found.effects
    assert found.tell(events.PodSeen(TWO, 101.1)) == []
    assert found.tick(101.19) == []
    assert found.tick(101.2) == ["ScanHost"]
    assert found.tick(105.0) == []


@pytest.mark.parametrize(
    "event",
    [
        events.StateFilesChanged(101.0),
        events.PodSeen(ONE, 101.0),
        events.PodUnreadable(101.0),
        events.PodGone(("default", "p9"), "u9", 101.0),
        events.PodsListed((ONE,), 101.0),
    ],
)
def test_every_change_leads_to_one_look(event):
    found = started()
    found.tell(event)
    assert found.tick(102.0) == ["ScanHost"]
    assert found.tick(103.0) == []


def test_a_change_during_a_look_leads_to_another_one():
    found = started()
    found.tell(events.StateFilesChanged(101.0))
    found.state, effects = step(found.setup, found.state, events.Tick(101.2, 0.5))
    assert any(isinstance(effect, events.ScanHost) for effect in effects)
    assert found.tell(events.StateFilesChanged(101.3)) == []
    assert found.tick(105.0) == []  # the host has not answered yet
    found.tell(events.HostScanned(EMPTY, 106.0))
    assert found.wake() == ["ScanHost"]
    assert found.now == 106.2


def test_an_unchanged_object_is_not_written():
    found = started()
    found.tell(events.StateFilesChanged(101.0))
    assert found.tick(102.0) == ["ScanHost"]
    found.report = WITH_ONE
    found.tell(events.StateFilesChanged(103.0))
    assert found.tick(104.0) == ["ScanHost", "WriteObject"]
    assert found.counts(events.CountPublish) == ["written", "unchanged", "written"]


def test_the_object_is_written_again_for_a_node_that_was_made_anew():
    found = started()
    found.host_uid = "node-2"
    found.wake()
    assert found.wake() == [*CHECKING_LOOK, "WriteObject"]
    found.host_uid = ""
    found.wake()
    assert found.wake() == [*CHECKING_LOOK, "WriteObject"]
    writes = [e.host_uid for e in found.effects if isinstance(e, events.WriteObject)]
    assert writes == ["node-1", "node-2", ""]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 54), (0.5, 60), (1.0, 66)])
def test_once_per_interval_it_is_checked_that_the_object_still_stands(chance, seconds):
    found = Exporter()
    found.chance = chance
    found.tick()
    found.tell(events.PodsListed((), found.now))
    found.wake()
    assert found.tick(100 + seconds - 0.1) == []
    assert found.tick(100 + seconds) == []
    assert found.wake() == [*CHECKING_LOOK, "CheckObject"]
    found.stands = "v7"
    found.wake()
    assert found.wake() == [*CHECKING_LOOK, "CheckObject", "WriteObject"]
    found.stands = None
    found.wake()
    assert found.wake() == [*CHECKING_LOOK, "CheckObject", "WriteObject"]


@pytest.mark.parametrize("request_", [events.LookUpHost, events.ScanHost, events.CheckObject])
def test_a_check_is_repeated_after_a_failure(request_):
    found = started()
    found.wake()
    found.fails = {request_}
    assert found.wake()[-1] == request_.__name__
    found.fails = set()
    found.effects.clear()
    assert found.wake() == [*CHECKING_LOOK, "CheckObject"]
    found.tell(events.StateFilesChanged(found.now))
    assert found.tick(found.now + 1) == ["ScanHost"]


def test_after_a_failed_write_nobody_knows_what_stands_there():
    found = started()
    found.fails = {events.WriteObject}
    found.report = WITH_ONE
    found.tell(events.StateFilesChanged(101.0))
    found.tick(102.0)
    found.fails = set()
    found.report = EMPTY  # what was written first
    assert found.wake() == ["ScanHost", "WriteObject"]
    assert found.counts(events.CountPublish) == ["written", "failed", "written"]


def test_waits_grow_with_every_failure_and_begin_anew_after_a_success():
    found = started(interval_seconds=10_000.0)
    found.fails = {events.ScanHost}
    found.tell(events.StateFilesChanged(101.0))
    for _ in range(9):
        found.wake()
    assert found.waits() == [0.375, 0.75, 1.5, 3.0, 6.0, 12.0, 22.5, 22.5, 22.5]
    found.fails = set()
    found.wake()
    found.fails = {events.ScanHost}
    found.tell(events.StateFilesChanged(found.now))
    found.wake()
    assert found.waits()[-1] == 0.375
    assert found.counts(events.CountScan) == ["ok", *["failed"] * 9, "ok", "failed"]


def test_changes_do_not_shorten_the_wait_after_a_failure():
    found = started()
    found.fails = {events.ScanHost}
    found.tell(events.StateFilesChanged(101.0))
    found.tick(101.2)
    found.tell(events.StateFilesChanged(101.3))
    assert found.tick(101.7) == []
    assert found.tick(101.2 + 0.375 + 0.2) == ["ScanHost"]


def test_unknown_pods_delay_publishing():
    found = Exporter()
    found.report = WITH_BOTH
    found.tick()
    found.tell(events.PodsListed((ONE,), found.now))
    assert found.wake() == [*CHECKING_LOOK, "AskForPods"]
    (why,) = problems(found.setup, found.state, found.now)
    assert "the API server does not know (default/p2)" in why
    found.pods = {("default", "p2"): TWO}
    assert found.wake() == [*CHECKING_LOOK, "AskForPods", "WriteObject"]
    assert problems(found.setup, found.state, found.now) == []


def test_a_pod_whose_name_is_taken_again_stays():
    found = started()
    key = ONE.pod.namespace, ONE.pod.name
    found.tell(events.PodGone(key, "another uid", 101.0))
    assert key in found.state.pods
    found.tell(events.PodGone(key, ONE.pod.uid, 101.0))
    assert key not in found.state.pods


def test_what_was_known_of_a_pod_that_cannot_be_read_still_stands():
    found = started()
    one = ONE.pod.namespace, ONE.pod.name
    found.tell(events.PodsListed((), 101.0, frozenset({one, ("default", "new")})))
    assert found.state.pods == {one: ONE}


@pytest.mark.parametrize(
    ("chosen", "host_uid", "spoken"),
    [
        (None, "node-1", Version.V1_37),
        (None, "", Version.V1_36),
        (Version.V1_36, "node-1", Version.V1_36),
    ],
)
def test_the_version_is_the_chosen_one_or_what_the_node_says(chosen, host_uid, spoken):
    found = Exporter(version=chosen)
    found.host_uid = host_uid
    found.tick()
    found.tell(events.PodsListed((), found.now))
    found.wake()
    assert events.ScanHost(spoken) in found.effects


def test_it_is_not_ready_before_the_first_success_and_after_three_intervals_without():
    found = Exporter()
    assert problems(found.setup, found.state, 100.0) == ["nothing was published yet"]
    found = started(interval_seconds=20.0)
    at = found.state.succeeded_at
    found.fails = {events.ScanHost}
    found.tick(at + 21)
    found.wake()
    assert problems(found.setup, found.state, at + 60) == []
    assert problems(found.setup, found.state, at + 61) == [
        "nothing was published for 61 s: no answer"
    ]
    found.fails = set()
    found.wake()
    assert problems(found.setup, found.state, found.now) == []


def test_short_intervals_are_stale_after_half_a_minute():
    found = started(interval_seconds=1.0)
    at = found.state.succeeded_at
    assert problems(found.setup, found.state, at + 30) == []
    assert problems(found.setup, found.state, at + 31) != []


def test_a_clock_that_wakes_a_moment_too_early_is_asked_again():
    found = started()
    found.tell(events.StateFilesChanged(101.0))
    found.effects.clear()
    assert found.tick(101.1999) == []
    assert found.effects == [events.WakeAt(101.2)]


def test_the_success_is_reported_after_everything_else():
    found = started()
    kinds = [type(e) for e in found.effects if not isinstance(e, events.WakeAt)]
    assert kinds == [
        events.LookUpHost,
        events.ScanHost,
        events.CountScan,
        events.WriteObject,
        events.CountPublish,
        events.ReportSuccess,
    ]
