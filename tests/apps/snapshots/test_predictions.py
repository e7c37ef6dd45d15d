"""A bundle of the moment before predicts what the real kubelet did next."""

import json
import sys

import pytest
from tests.apps.snapshots.live_bundles import RECORDS, moments, record_of

from numalign.adapters.sources.bundles import read_bundle
from numalign.apps.snapshots.loading import loaded
from numalign.apps.snapshots.sources import inputs_in
from numalign.apps.snapshots.verdicts import outcomes
from numalign.core.kubelet.admission.verdict import refusal
from numalign.core.kubelet.decisions import Admitted
from numalign.core.values.sets import format_list
from numalign.wire.bundle import packed

REJECTED = "Pod was rejected: "


def predicted(found, pod):
    """Reason, message, CPUs and memory nodes by container."""
    [outcome] = outcomes(found.snapshot, [pod], is_critical=True)
    words = refusal(outcome.verdict)
    if words is not None:
        return words[0], REJECTED + words[1], {}, {}
    assert isinstance(outcome.verdict, Admitted)
    placed = outcome.verdict.placements
    # An init container's memory goes back to the node when the next container starts.
    kept = [p for p in placed if not is_over(outcome.pod, p.container)]
    return (
        None,
        None,
        {p.container: format_list(p.cpus) for p in placed if p.cpus is not None},
        {p.container: nodes_of(p.memory) for p in kept if p.memory},
    )


def is_over(pod, name):
    return any(c.name == name and c.is_regular_init for c in pod.in_order)


def nodes_of(blocks):
    return sorted((block.type, block.size, block.nodes) for block in blocks)


def recorded(moment):
    result, uid = moment.result, moment.pod.metadata.uid
    if result["reason"] is not None:
        return result["reason"], result["message"], {}, {}
    cpus = json.loads(result["cpu_manager_state"]).get("entries") or {}
    memory = json.loads(result["memory_manager_state"]).get("entries") or {}
    init = {c.name for c in moment.pod.spec.initContainers or () if c.restartPolicy != "Always"}
    return (
        None,
        None,
        cpus.get(uid, {}),
        {
            name: sorted((b["type"], b["size"], tuple(b["numaAffinity"])) for b in blocks)
            for name, blocks in memory.get(uid, {}).items()
            if name not in init
        },
    )


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_bundle_predicts_what_the_kubelet_does_next(path, tmp_path, capsys):
    record = record_of(path)
    wrong, count = [], 0
    machine = None
    for moment in moments(record):
        file = tmp_path / "host.tar.gz"
        file.write_bytes(packed(moment.bundle))
        inputs = inputs_in(read_bundle(file), str(file), machine)
        machine = inputs.machine  # it stays the same, and takes the longest to read
        ours, theirs = predicted(loaded(inputs), moment.pod), recorded(moment)
        count += 1
        if ours != theirs:
            wrong.append(f"{moment.pod.metadata.name}: {ours}, the kubelet: {theirs}")
    with capsys.disabled():
        sys.stdout.write(f"\npredicted {count - len(wrong)} of {count} ({path.name})\n")
    assert not wrong, "\n".join(wrong)
    assert count > 10
