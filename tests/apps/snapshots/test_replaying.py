"""Captured hosts started again: sound files, damaged ones, and pods that are refused."""

import pytest
from tests.apps.snapshots.live_bundles import RECORDS, moments, record_of, restarts

from numalign.apps.snapshots.replaying import replayed
from numalign.apps.snapshots.sources import inputs_in


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_the_files_of_a_real_kubelet_are_sound(path):
    record = record_of(path)
    machine = None
    for moment in moments(record):
        inputs = inputs_in(moment.bundle, "record", machine)
        machine = inputs.machine
        found = replayed(inputs, is_critical=True)
        assert [f.fault for f in found.files] == [None, None, None]
        assert [f.breaches for f in found.files] == [(), (), ()], moment.pod.metadata.name


RESTARTED = [path for path in RECORDS if list(restarts(record_of(path)))]


@pytest.mark.parametrize("path", RESTARTED, ids=lambda path: path.name)
def test_a_replay_tells_who_is_refused_after_a_restart(path):
    for moment in restarts(record_of(path)):
        found = replayed(inputs_in(moment.bundle, "record"), is_critical=True)
        assert found.start_fault is None
        after = {n.removesuffix("-worker-1"): v for n, v in moment.result["pods"].items()}
        ran = {r.metadata.name for r in moment.bundle.pods("")}
        refused = {n: reason for n, (_, reason) in after.items() if reason and n in ran}
        assert {r.pod.removeprefix("default/"): r.reason for r in found.refused} == refused
