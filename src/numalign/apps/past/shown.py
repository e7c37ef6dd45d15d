"""A host at a moment of the past, as the page and the API show one."""

from __future__ import annotations

from numalign import __version__
from numalign.apps.agent.views import answers
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import pod_list
from numalign.apps.past.chain import Then
from numalign.apps.still.still import refused_pod, still_host
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.errors import WireError
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import Machine
from numalign.core.machine.published import machine_of
from numalign.wire.pods.manifests import core_pod


def shown(then: Then, machine: Machine, *, trace: bool) -> answers.PastMoment:
    """The host of a moment; ``machine`` is that of now, used if it was the same then."""
    moment, info = then.change.moment, then.placement.machine
    pods = [core_pod(record, uid=uid) for uid, record in then.records.items()]
    found = rebuilt(then.placement, pods)
    if found is None:
        raise WireError("this moment cannot be shown: what was kept of it contradicts itself")
    if machine_info(machine) != info:
        machine = machine_of(info, machine.name)
    names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in pods}
    snapshot = HostSnapshot(machine, found.frame.host, found.state, found.frame.totals, names)
    refused = {}
    if then.change.refused is not None:
        uid, record = moment.uid, then.change.refused
        refused[uid] = refused_pod(record, uid, moment.reason, moment.message, moment.time)
    host = still_host(snapshot, then.records.values(), at=moment.time, refused=refused)
    source = answers.Source("history", machine.name, [], __version__, at=moment.time)
    return answers.PastMoment(
        moment,
        node_view(host.setup, host.state, machine, source),
        pod_list(host.setup, host.state, env=False),
        then.change.trace if trace else None,
    )
