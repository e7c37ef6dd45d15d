"""Snapshots made by hand: a small host with some pods on it."""

from dataclasses import replace

from tests.core.explain.recorded_refusals import machine_of

from numalign.core.explain.explain import asked, explain
from numalign.core.kubelet import host
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.verdict import HostSnapshot, decide
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import Device
from numalign.core.what_if.search import Search
from numalign.core.what_if.what_if import changes


def gpus(*nodes, sick=()):
    """One GPU on each of these nodes, in their order."""
    return [Device(f"gpu{i}", (node,), i not in sick) for i, node in enumerate(nodes)]


def snapshot(configured, info, *pods, plugins=None, pods_max=110):
    """The host after these pods, all of which it must admit."""
    managers = host.build(configured, info)
    state = host.start(managers)
    for name, items in (plugins or {}).items():
        resource = devices.device_resource(items)
        state = replace(state, devices=devices.with_reported(state.devices, name, resource))
    totals = node_fit.allocatable(configured, info, pods_max=pods_max)
    found = HostSnapshot(machine_of(info), managers, state, totals)
    for pod in pods:
        found, verdict = decide(found, pod)
        assert isinstance(verdict, Admitted), f"{pod.name}: {verdict}"
    return found


def why(on, pod):
    """The explanation of what the host says to a pod."""
    return explain(asked(on, pod))


def helping(on, pod, **options):
    """The changes that would let a pod in, smallest first."""
    case = asked(on, pod)
    found = changes(Search(case, explain(case), **options))
    return sorted(found, key=lambda change: change.rank)
