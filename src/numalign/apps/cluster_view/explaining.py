"""One pod of a live cluster, explained on one of its hosts from what the host has published."""

from __future__ import annotations

from collections.abc import Collection

from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.rebuild import Frame, rebuilt
from numalign.core.errors import ConfigError
from numalign.core.explain.causes import Case
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.host import HostState, ended
from numalign.core.pod import Pod


def case_of(topology: HostTopology | None, host: str, pod: Pod, others: Collection[Pod]) -> Case:
    """What this host says to the pod now, beside the others that are on it.

    A pod that is on it already is asked about as if it came anew.
    """
    if topology is None or topology.placement is None:
        raise ConfigError(
            f"{host}: it publishes no placement, so nothing can be explained. Run 'numalign "
            "export' there."
        )
    found = now(topology, others, but=pod.uid)
    if found is None:
        raise ConfigError(
            f"{host}: its published placement contradicts itself. Look at the exporter's log there."
        )
    frame, before = found
    trace = Trace()
    after, verdict = verdict_on(frame.host, before, frame.totals, pod, trace=trace)
    return Case(frame.host, before, after, frame.totals, pod, verdict, trace)


def now(
    topology: HostTopology, pods: Collection[Pod], *, but: str = ""
) -> tuple[Frame, HostState] | None:
    """The managers of a host and what they hold, with the pods that are on it, ``but`` one.

    None where it publishes no placement, or one that contradicts itself.
    """
    found = None if topology.placement is None else rebuilt(topology.placement, pods)
    if found is None:
        return None
    frame, state = found.frame, ended(found.state, but)
    for pod in pods:
        # Bound, but not published yet: its kubelet has or will have admitted it.
        if pod.uid not in found.confirmed and pod.uid != but:
            state, _ = verdict_on(frame.host, state, frame.totals, pod)
    return frame, state
