"""One pod of a live cluster, explained on one of its hosts from what the host has published."""

from __future__ import annotations

from collections.abc import Collection

from numalign.core.cluster.rebuild import rebuilt
from numalign.core.cluster.zones import HostTopology
from numalign.core.decisions import Trace
from numalign.core.errors import ConfigError
from numalign.core.explain import Case
from numalign.core.host import ended
from numalign.core.pod import Pod
from numalign.core.situation import verdict_on


def case_of(topology: HostTopology | None, host: str, pod: Pod, others: Collection[Pod]) -> Case:
    """What this host says to the pod now, beside the others that are on it.

    A pod that is on it already is asked about as if it came anew.
    """
    if topology is None or topology.placement is None:
        raise ConfigError(
            f"{host}: it publishes no placement, so nothing can be explained. Run 'numalign "
            "export' there."
        )
    found = rebuilt(topology.placement, others)
    if found is None:
        raise ConfigError(
            f"{host}: its published placement contradicts itself. Look at the exporter's log there."
        )
    frame = found.frame
    before = ended(found.state, pod.uid)
    published = {placed.key for placed in topology.placement.pods}
    for other in others:
        # Bound, but not published yet: its kubelet has or will have admitted it.
        if (other.namespace, other.name) not in published and other.uid != pod.uid:
            before, _ = verdict_on(frame.host, before, frame.totals, other)
    trace = Trace()
    after, verdict = verdict_on(frame.host, before, frame.totals, pod, trace=trace)
    return Case(frame.host, before, after, frame.totals, pod, verdict, trace)
